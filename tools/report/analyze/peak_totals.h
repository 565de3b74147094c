// SPDX-License-Identifier: Apache-2.0
// What was live by stack at a moment of which only later turns out that it matters: so that the trace need not be read
// again. A device's peak so far and its last refusal are marked; a stack's totals are put aside when they change first
// behind the mark.
#ifndef CT_MARKS_H
#define CT_MARKS_H

#include "analyze/live_at.h"

enum ct_totals_kind { CT_TOTALS_AT_PEAK, CT_TOTALS_AT_OOM, CT_TOTALS_KINDS };

// One cache line. `at` counts if its `set` is the mark's; else nothing has changed since.
struct ct_stack_at_peak {
    uint64_t bytes, count; // now
    struct {
        uint64_t set, bytes, count;
    } at[CT_TOTALS_KINDS];
};

// Of a device.
struct ct_peak_totals {
    struct ct_stack_at_peak *stacks; // by stack id
    size_t stack_count;
    struct {
        uint64_t set; // how often
        uint64_t event;
        struct ct_breakdown split;
        uint64_t host_bytes;
        struct ct_mempool_usage *pools;
        size_t pool_count;
    } mark[CT_TOTALS_KINDS];
};

// Something of a stack began (bytes and count positive) or ended.
void ct_peak_totals_add(struct ct_peak_totals *m, uint32_t stack, uint64_t bytes, uint64_t count);
// Marks the state behind an event (of a device's index); it takes the place of the mark before.
void ct_peak_totals_capture(struct ct_peak_totals *m, enum ct_totals_kind which, const struct ct_replay *r, int device,
                  uint64_t event);
// The moment of a mark, without addresses and, at a peak, without pools. 1, or 0 if it is not at that event.
int ct_peak_totals_get(const struct ct_peak_totals *m, enum ct_totals_kind which, uint64_t event,
                    struct ct_live_totals *moment);
void ct_peak_totals_free(struct ct_peak_totals *m);

#endif
