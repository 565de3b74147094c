// SPDX-License-Identifier: Apache-2.0
// The sentences that say what ran out of memory, and why, whose texts the caller frees; verdicts as
// text and in JSON.
#ifndef CT_VERDICT_H
#define CT_VERDICT_H

#include "analyze/incidents.h"
#include "analyze/oom_reason.h"
#include "answer/view.h"
#include "base/json.h"
#include "diagnose/verdicts.h"
#include "symbols/call_sites.h"

// What was asked for, and what was free: "PyTorch asked for 24.00 MiB; 8.19 MiB of 79.18 GiB was
// free". `capacity`: of the device; 0: unknown.
char *ct_verdict_request(struct ct_view *v, const struct ct_oom_event *o, uint64_t capacity);
// Why the request failed, in one sentence without its full stop. `growths`: may be NULL.
char *ct_verdict_cause(struct ct_view *v, const struct ct_oom_event *o,
                       const struct ct_pool_growths *growths);
// How many incidents there are, and what became of them. Needs at least one.
char *ct_verdict_incidents(const struct ct_incidents *n);
// All of a group: "48 of this call site and outcome, of 1.00 KiB to 4.00 MiB, from +0.031 s, event
// 3321, to +0.238 s, event 137581". Without a stack the call site is not known.
char *ct_verdict_all_alike(struct ct_view *v, const struct ct_incidents *n,
                           const struct ct_incident_group *g);
// "+5.944 s (12:54:35Z)".
struct ct_human_text ct_verdict_time(const struct ct_view *v, uint64_t t_ns);
// The thread of an event: "1849 python3"; "" if it is not known. Prints it.
void ct_verdict_print_thread(struct ct_view *v, uint32_t thread);
// Prints the line that says up to when the trace is described: "as of +4.200 s, event 17; ...".
void ct_verdict_print_moment(struct ct_view *v, const struct ct_moment *m);
// Prints the first `most` verdicts of a list: each with its evidence, its advice and what would
// refute it. The view may be one without a trace.
void ct_verdicts_print(struct ct_view *v, const struct ct_verdicts *l, size_t most);
// What a verdict ends with: its advice, and what would refute it.
void ct_verdicts_print_end(struct ct_view *v, const struct ct_verdict *one);
// The first advice of one as the field "change" of a screen; nothing without one.
void ct_verdicts_print_change(struct ct_view *v, const struct ct_verdict *one);

// Adds `verdicts`. `sites`: of the trace; NULL: there is none, and the evidence has no stacks.
void ct_verdicts_add_json(struct ct_json *j, const struct ct_verdicts *l,
                          struct ct_call_sites *sites);
// The same of several traces: with `process_indexes`.
void ct_verdicts_add_json_of_processes(struct ct_json *j, const struct ct_verdicts *l);

#endif
