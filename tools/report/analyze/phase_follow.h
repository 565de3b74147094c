// SPDX-License-Identifier: Apache-2.0
// The phase of an event: that of its stack. Where the stack has no frames of Python, it is by time:
// the last phase of the event's thread or, for a thread that has never had one, of the thread that
// had the last one. A range of the program is the phase of what lies in it where no frame says
// more.
#ifndef CT_PHASE_FOLLOW_H
#define CT_PHASE_FOLLOW_H

#include <cutrace/format/decode.h>

#include "symbols/phases.h"
#include "symbols/ranges.h"

struct ct_phase_follow {
    struct ct_phases *phases; // NULL: nothing is followed
    // Ranges that are open before the event that comes next; NULL: ranges are not looked at.
    const struct ct_open_ranges *open;
    struct ct_phase_at last, *of_thread, of_event;
    size_t thread_count;
    int has_any; // a stack names a phase, or a range has been open; -1: none yet; 0: not looked
};

// What ct_phase_follow_event does where a phase may be known.
const struct ct_phase_at *ct_phase_follow_slow(struct ct_phase_follow *f, const struct ct_event *e);

// Returns the phase of an event, valid until the next call. Call it for each event of a trace, in
// their order. (Most programs name no phases: then there is nothing to look up until a range is
// open.)
static inline const struct ct_phase_at *ct_phase_follow_event(struct ct_phase_follow *f,
                                                              const struct ct_event *e) {
    static const struct ct_phase_at unknown = {.phase = CT_PHASE_UNKNOWN};
    const int is_idle = f->has_any < 0 && e->op < CT_OP_MARK && !(f->open && f->open->used);
    return is_idle ? &unknown : ct_phase_follow_slow(f, e);
}

void ct_phase_follow_free(struct ct_phase_follow *f);

#endif
