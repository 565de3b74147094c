// SPDX-License-Identifier: Apache-2.0
// The time that the events do not tell of any more, from the coarse history.
#ifndef CT_PAST_H
#define CT_PAST_H

#include <cutrace/model/checkpoint.h>
#include <cutrace/model/history.h>

#include "analyze/scan.h"

// Whether a trace has a past beyond its events.
int ct_coarse_history_exists(const struct ct_trace *t);
// When it begins, t_first_ns if there is none.
uint64_t ct_coarse_history_start(const struct ct_trace *t);
// Puts it into the columns of a device that the events do not cover, and marks those as coarse.
void ct_coarse_history_plot(struct ct_scan *s, const struct ct_trace *t, int device);

// What it knows of a device.
struct ct_coarse_summary {
    int known;
    uint64_t peak_bytes, peak_ns, peak_width_ns; // allocated; somewhere in that bucket
    uint64_t refused;                            // in the whole history
};

struct ct_coarse_summary ct_coarse_history_summarize(const struct ct_trace *t, int device);

#endif
