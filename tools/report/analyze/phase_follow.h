// SPDX-License-Identifier: Apache-2.0
// The phase of an event: that of its stack. Where the stack has no frames of Python, it is by time:
// the last phase of the event's thread or, for a thread that has never had one, of the thread that
// had the last one.
#ifndef CT_PHASE_FOLLOW_H
#define CT_PHASE_FOLLOW_H

#include <cutrace/format/decode.h>

#include "symbols/phases.h"

struct ct_phase_follow {
    struct ct_phases *phases; // NULL: nothing is followed
    struct ct_phase_at last, *of_thread;
    size_t thread_count;
};

// Returns the phase of an event. Call it for each event of a trace, in their order.
struct ct_phase_at ct_phase_follow_event(struct ct_phase_follow *f, const struct ct_event *e);
void ct_phase_follow_free(struct ct_phase_follow *f);

#endif
