// SPDX-License-Identifier: Apache-2.0
// What was live by stack at a moment of which only later turns out that it matters: so that the trace need not be read
// again. A device's peak so far and its last refusal are marked; a stack's totals are put aside when they change first
// behind the mark.
#ifndef CT_MARKS_H
#define CT_MARKS_H

#include "analyze/live_at.h"

enum ct_mark { CT_MARK_PEAK, CT_MARK_REFUSAL, CT_MARKS_END };

// One cache line. `at` counts if its `set` is the mark's; else nothing has changed since.
struct ct_marked_stack {
    uint64_t bytes, count; // now
    struct {
        uint64_t set, bytes, count;
    } at[CT_MARKS_END];
};

// Of a device.
struct ct_marks {
    struct ct_marked_stack *stacks; // by stack id
    size_t stack_count;
    struct {
        uint64_t set; // how often
        uint64_t event;
        struct ct_breakdown split;
        uint64_t host_bytes;
        struct ct_mempool_usage *pools;
        size_t pool_count;
    } mark[CT_MARKS_END];
};

// Something of a stack began (bytes and count positive) or ended.
void ct_marks_change(struct ct_marks *m, uint32_t stack, uint64_t bytes, uint64_t count);
// Marks the state behind an event (of a device's index); it takes the place of the mark before.
void ct_marks_set(struct ct_marks *m, enum ct_mark which, const struct ct_replay *r, int device,
                  uint64_t event);
// The moment of a mark, without addresses and, at a peak, without pools. 1, or 0 if it is not at that event.
int ct_marks_moment(const struct ct_marks *m, enum ct_mark which, uint64_t event,
                    struct ct_moment *moment);
void ct_marks_free(struct ct_marks *m);

#endif
