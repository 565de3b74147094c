// SPDX-License-Identifier: Apache-2.0
// One pass over a trace for several listeners. Nothing else in the report drives events, but a copy
// of a trace.
#ifndef CT_PASS_H
#define CT_PASS_H

#include "replay/replay.h"

// Must not be moved: its replay refers to it.
struct ct_pass {
    struct ct_replay *replay; // after the last event that a listener wanted
    struct ct_listeners listeners;
    struct ct_replay own;
};

// `r` (not initialized) becomes the replay of the pass, and outlives it; NULL: the pass has one of
// its own. It replays PyTorch's blocks, too, unless its `tiles` are set to 0 before the pass runs.
void ct_pass_init(struct ct_pass *p, struct ct_replay *r);
// Ends with the trace, or where no listener goes on. Without a listener it reads nothing.
void ct_pass_run(struct ct_pass *p, struct ct_trace *t);
// Begins where the trace was sought, not at its first event.
void ct_pass_run_from_here(struct ct_pass *p, struct ct_trace *t);
void ct_pass_free(struct ct_pass *p);
// All of this for one listener. `r`: as for ct_pass_init.
void ct_pass_run_one(struct ct_replay *r, struct ct_trace *t, const struct ct_listener *listener);

#endif
