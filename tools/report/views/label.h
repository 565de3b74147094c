// SPDX-License-Identifier: Apache-2.0
// Short texts for sizes, times, devices and functions, as the options ask for them.
#ifndef CT_LABEL_H
#define CT_LABEL_H

#include "views/views.h"

struct ct_human_text ct_label_time(const struct ct_view *v, uint64_t t_ns); // "+312.400 s"
struct ct_human_text ct_label_size(const struct ct_view *v, uint64_t bytes);
struct ct_human_text ct_label_device(int device); // of an index: "GPU 0", "GPU ?"
// The time of day at a time of the events, or "" if the trace does not have it.
struct ct_human_text ct_label_wall_clock(const struct ct_view *v, uint64_t t_ns);
// The function of an event, a string's id.
void ct_label_api(const struct ct_view *v, uint32_t api, char *to, size_t size);

#endif
