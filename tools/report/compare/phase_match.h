// SPDX-License-Identifier: Apache-2.0
// The phases of two runs side by side: what each phase has allocated of what is live, since when,
// and how fast that grows, and what it took, kept and gave back. The rows add up to what is live on
// each side.
#ifndef CT_PHASE_MATCH_H
#define CT_PHASE_MATCH_H

#include "compare/compared_run.h"

// What a side has of a phase. All 0: nothing.
struct ct_phase_share {
    uint64_t bytes, count; // live at the moment; by the stack that allocated it
    // The phase is one of time, because no stack names any: what it has allocated of what is live
    // is not known. (It is in the row of no known phase.)
    int is_live_unknown;
    uint64_t oldest_ns; // when the oldest of what is live was allocated; 0: not known
    int is_oldest_unknown;
    // The growth an hour of the call sites whose memory is of this phase. Not known where that of
    // one of them is not (compared_run.h), or where a site that grows is of several phases.
    int is_rate_known;
    uint64_t bytes_per_hour;
    // Of all stretches of the phase up to the moment, as in phase_times.h.
    uint64_t stretches, duration_ns, taken_bytes, taken_count, kept_bytes, given_back_bytes,
        given_back_count, peak_bytes;
};

struct ct_phase_row {
    struct ct_phase_at at; // of no known phase: CT_PHASE_UNKNOWN
    int is_idle;           // the row of what is idle in PyTorch's pool, which is of no phase
    struct ct_phase_share side[CT_SIDES];
};

enum ct_phase_state { CT_PHASE_OF_BOTH, CT_PHASE_IS_NEW, CT_PHASE_IS_GONE, CT_PHASE_STATE_UNKNOWN };

struct ct_phase_match {
    struct ct_phase_row *list; // in the order in which A, then B, first has them
    size_t count, room;
    int is_comparable; // both sides know their phases by the same means
};

void ct_phase_match_build(struct ct_phase_match *m, const struct ct_compared_device d[CT_SIDES],
                          struct ct_phases *phases[CT_SIDES],
                          struct ct_call_sites *sites[CT_SIDES]);
// Whether one side only has a phase. Unknown for the rows that are no phase, and where one side
// knows phases of stacks and the other those of time.
enum ct_phase_state ct_phase_match_state(const struct ct_phase_match *m,
                                         const struct ct_phase_row *r);
void ct_phase_match_free(struct ct_phase_match *m);

#endif
