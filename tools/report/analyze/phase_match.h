// SPDX-License-Identifier: Apache-2.0
// The phases of two runs side by side: what each phase has allocated of what is live, and what it
// took, kept and gave back. The rows add up to what is live on each side.
#ifndef CT_PHASE_MATCH_H
#define CT_PHASE_MATCH_H

#include "analyze/compared_run.h"

// What a side has of a phase. All 0: nothing.
struct ct_phase_share {
    uint64_t bytes, count; // live at the moment; by the stack that allocated it
    // The phase is one of time, because no stack names any: what it has allocated of what is live
    // is not known. (It is in the row of no known phase.)
    int is_live_unknown;
    // Of all stretches of the phase up to the moment, as in phase_times.h.
    uint64_t stretches, duration_ns, taken_bytes, taken_count, kept_bytes, given_back_bytes,
        given_back_count, peak_bytes;
};

struct ct_phase_row {
    struct ct_phase_at at; // of no known phase: CT_PHASE_UNKNOWN
    int is_idle;           // the row of what is idle in PyTorch's pool, which is of no phase
    struct ct_phase_share side[CT_SIDES];
};

struct ct_phase_match {
    struct ct_phase_row *list; // in the order in which A, then B, first has them
    size_t count, room;
};

void ct_phase_match_build(struct ct_phase_match *m, const struct ct_compared_device d[CT_SIDES],
                          struct ct_phases *phases[CT_SIDES]);
void ct_phase_match_free(struct ct_phase_match *m);

#endif
