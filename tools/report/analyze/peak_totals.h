// SPDX-License-Identifier: Apache-2.0
// Copy-on-write totals by stack and kind at candidate moments: a device's highest peak so far and
// its last OOM. Only the end of the trace shows which candidate mattered; with its totals kept, the
// trace need not be read again.
#ifndef CT_PEAK_TOTALS_H
#define CT_PEAK_TOTALS_H

#include "analyze/live_at.h"

enum ct_totals_moment { CT_TOTALS_AT_PEAK, CT_TOTALS_AT_OOM, CT_TOTALS_MOMENTS };

// Of one stack and kind, in one cache line. A saved total is valid if its `generation` is the
// candidate's; otherwise the stack has not changed since the candidate was captured.
struct ct_stack_at_peak {
    uint64_t bytes, count; // now
    struct {
        uint64_t generation, bytes, count;
    } saved[CT_TOTALS_MOMENTS];
};
_Static_assert(sizeof(struct ct_stack_at_peak) == 64, "one cache line");

// The candidates of one device.
struct ct_peak_totals {
    struct ct_stacks_at_peak {
        struct ct_stack_at_peak *list; // by stack id
        size_t count;
    } kind[CT_HOLDING_STACKS], resumed[CT_HOLDING_STACKS]; // resumed: a part of what is held
    const struct ct_resumers *resumers;                    // of the replay that was captured last
    uint64_t rounding_bytes;                               // at present (ct_live_at_rounding)
    struct {
        uint64_t generation; // number of captures; 0: none yet
        uint64_t event;
        struct ct_holding idle;
        struct ct_breakdown split;
        uint64_t host_bytes, asleep_bytes, rounding_bytes;
        struct ct_mempool_usage *pools;
        size_t pool_count;
    } candidate[CT_TOTALS_MOMENTS];
};

// Makes room for a stack.
void ct_peak_totals_grow(struct ct_stacks_at_peak *stacks, uint32_t stack);

// Adds to the present totals of a stack, in `kind` or `resumed`; what was freed is added as the
// two's complement.
static inline void ct_peak_totals_add(const struct ct_peak_totals *p,
                                      struct ct_stacks_at_peak *stacks, uint32_t stack,
                                      uint64_t bytes, uint64_t count) {
    if (stack >= stacks->count)
        ct_peak_totals_grow(stacks, stack);
    struct ct_stack_at_peak *s = &stacks->list[stack];
    for (unsigned i = 0; i < CT_TOTALS_MOMENTS; i++) {
        CT_ASSERT(s->saved[i].generation <= p->candidate[i].generation);
        if (s->saved[i].generation == p->candidate[i].generation)
            continue;
        s->saved[i].generation = p->candidate[i].generation;
        s->saved[i].bytes = s->bytes;
        s->saved[i].count = s->count;
    }
    s->bytes += bytes;
    s->count += count;
}

// Captures the state after an event of a device (an index) as its new candidate.
void ct_peak_totals_capture(struct ct_peak_totals *p, enum ct_totals_moment moment,
                            const struct ct_replay *r, int device, uint64_t event);
// Returns the memory split at a candidate; all unknown and 0 if none was captured.
struct ct_breakdown ct_peak_totals_split(const struct ct_peak_totals *p,
                                         enum ct_totals_moment moment);
// Returns 1 and the candidate's totals (at a peak without memory pools), or 0 if it was not
// captured at that event.
int ct_peak_totals_get(const struct ct_peak_totals *p, enum ct_totals_moment moment, uint64_t event,
                       enum ct_holding_rows rows, struct ct_live_totals *totals);
void ct_peak_totals_free(struct ct_peak_totals *p);

#endif
