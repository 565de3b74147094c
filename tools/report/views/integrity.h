// SPDX-License-Identifier: Apache-2.0
// What is wrong with the file of a trace: damage, missing chunks, events that contradict their
// chunk or its digest.
#ifndef CT_INTEGRITY_H
#define CT_INTEGRITY_H

#include "answer/view.h"
#include "replay/listeners.h"

struct ct_integrity {
    struct ct_trace *trace;
    uint64_t events, lost, out_of_order, outside, unknown_ops, unknown_stacks;
    uint64_t last_ns; // of the last event
    int ok;
};

// Hears all events of a pass over the trace.
struct ct_listener ct_integrity_listener(struct ct_integrity *i, struct ct_trace *t);
// After the pass: compares the digests of all chunks with what their events say, and decides.
void ct_integrity_finish(struct ct_integrity *i);
// Prints each finding as a line, then "ok: 22 events in 1 chunk, complete from start to end".
void ct_integrity_print(struct ct_view *v, const struct ct_integrity *i);
// Adds it as the value of "integrity"; NULL: it was not looked at.
void ct_integrity_add_json(struct ct_json *j, const struct ct_integrity *i);

#endif
