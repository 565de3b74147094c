// SPDX-License-Identifier: Apache-2.0
// The ranges that are open in the calling thread, as far as a trace needs them: a range that was
// pushed before the thread's first event in this trace is published right before that event.
#ifndef CT_ANNOTATION_NEST_H
#define CT_ANNOTATION_NEST_H

#include <stdint.h>

#include <cutrace/format/format.h>

// Ranges that are kept; deeper ones that begin before the first event are left out.
#define CT_ANNOTATION_NEST 16u

// How many ranges of the calling thread are open, kept and not published.
extern __thread uint32_t ct_annotation_pending __attribute__((tls_model("initial-exec")));

// Notes a range that begins. `published`: its event is in the trace. Returns its level, from 0 on.
int ct_annotation_push_open(const struct ct_event *e, int published);

// Notes the end of the innermost range of this domain (a name id, 0: none). Sets *published to
// whether its begin was, or may have been. Returns its level; -1: no range is open.
int ct_annotation_pop_open(uint32_t domain, int *published);

// Takes the pending ranges as events, the outermost first; at most CT_ANNOTATION_NEST.
unsigned ct_annotation_take_pending(struct ct_event *events);

// A forked child has a trace of its own: what is open in its thread is pending again.
void ct_annotation_reinit_child(void);

#endif
