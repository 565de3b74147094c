// SPDX-License-Identifier: Apache-2.0
// The period whose events the ring has overwritten, from the coarse history: per device and time
// bucket, the least, the most and the last of each quantity.
#ifndef CT_COARSE_HISTORY_H
#define CT_COARSE_HISTORY_H

#include <cutrace/model/checkpoint.h>
#include <cutrace/model/history.h>

#include "analyze/scan.h"

// Whether events were overwritten and a history covers them.
int ct_coarse_history_exists(const struct ct_trace *t);
// Start of the history, or t_first_ns if the history does not reach further back than the events.
uint64_t ct_coarse_history_start(const struct ct_trace *t);
// Fills the plot columns of a device that the events do not cover completely, and marks them as
// coarse.
void ct_coarse_history_plot(struct ct_scan *s, const struct ct_trace *t, int device);

struct ct_coarse_summary {
    int known;                                   // the history has allocated bytes of this device
    uint64_t peak_bytes, peak_ns, peak_width_ns; // most allocated; the bucket's start and width
    uint64_t ooms;                               // in the whole history
};

struct ct_coarse_summary ct_coarse_history_summarize(const struct ct_trace *t, int device);

#endif
