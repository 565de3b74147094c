// SPDX-License-Identifier: Apache-2.0
// Short texts for sizes, times, devices and functions, as the options ask for them.
#ifndef CT_LABEL_H
#define CT_LABEL_H

#include "answer/view.h"
#include "replay/replay.h"

struct ct_human_text ct_label_time(const struct ct_view *v, uint64_t t_ns); // "+12.400 s"
struct ct_human_text ct_label_size(const struct ct_view *v, uint64_t bytes);
// The budget of --capacity in both units, first in the one that was typed: "24 GB = 22.35 GiB".
struct ct_human_text ct_label_budget(const struct ct_view *v);
struct ct_human_text ct_label_device(int device); // of an index: "GPU 0", "GPU ?"
// The same with its kind and capacity where it is no card with memory of its own: "GPU 0 (MIG
// instance 3/0 of card 1, 40.00 GiB)". `state`: of the replay, which may know the capacity; NULL
// leaves it out.
struct ct_label_device {
    char text[120];
} ct_label_device_in_full(const struct ct_view *v, int device, const struct ct_replay *state);
// The time of day (UTC) at a time of the events, with the date where the trace lies in several days
// or `with_date`; "" if the trace does not have it.
struct ct_human_text ct_label_utc(const struct ct_view *v, uint64_t t_ns, int with_date);
// The function of an event, a string's id.
void ct_label_api(const struct ct_view *v, uint32_t api, char *to, size_t size);
// What the function returned: "CUDA_ERROR_OUT_OF_MEMORY (2)".
void ct_label_result(const struct ct_view *v, uint32_t api, int32_t result, char *to, size_t size);

#endif
