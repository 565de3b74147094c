// SPDX-License-Identifier: Apache-2.0
// The verdicts of a trace: which scenario its out-of-memory is, from the phase of the failed
// request, what it was for, and what held the device then.
#ifndef CT_TRACE_VERDICTS_H
#define CT_TRACE_VERDICTS_H

#include "diagnose/trace_case.h"

// Adds the verdicts, in the order of confidence; at least one. The log's are joined: where no
// request failed in the trace, it can know more.
void ct_trace_verdicts_find(const struct ct_trace_case *c, struct ct_verdicts *v);

// What took the place of a request that failed: something other than the phase that asked. Each
// rule adds a verdict of its own if it holds, and returns whether it did.

// The request was not one for memory of the device, or could never be served, or PyTorch's own
// limit refused it: no other rule has anything to say then.
int ct_trace_causes_not_full(const struct ct_judged *j);
// Something else held what was missing.
int ct_trace_causes_full(struct ct_judged *j);

// Adds what code outside of the server holds in its process. Returns 0 if that is less than was
// missing.
int ct_trace_causes_add_own(const struct ct_judged *j, struct ct_verdict *v);

// What to change, by the figures of a trace: the account of the failed request, and the settings of
// the process's command line or of the log beside the trace. A value is named only where all that
// it is computed from is known.

// How many bytes more than were free the phase of the request needs, at least.
uint64_t ct_trace_advice_need(const struct ct_judged *j);
// Adds advice to leave so many bytes more outside of the server's KV cache. `purpose` ends a
// sentence: ", so that ..." or "".
void ct_trace_advice_leave(const struct ct_judged *j, struct ct_verdict *v, uint64_t bytes,
                           const char *purpose);
// The same for code outside of the server whose own request failed: others of it may follow.
void ct_trace_advice_room(const struct ct_judged *j, struct ct_verdict *v);
void ct_trace_advice_fragmentation(const void *judged, struct ct_verdict *v);
// Adds the advice of the scenario that a phase leads to.
void ct_trace_advice_add(const void *judged, struct ct_verdict *v);
// Gives the advice of a log, which knows less than its trace, the values that fit names by both.
void ct_trace_advice_bound(const struct ct_vllm_fit *f, struct ct_verdicts *of_log);

// The verdict that memory only grows, whether or not a request has failed yet.

// Whether a trace has to be looked at for leaks (sites/leaks.h, which needs two more passes):
// some call site has taken memory again and again, and has given none back.
int ct_leak_verdict_is_possible(const struct ct_trace_case *c);
// Adds the verdict if `c->leaks` has growth that matters: more than was missing for the failed
// request, or, where none failed (`j` NULL), a part of the device. Returns whether it did.
int ct_leak_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                        struct ct_verdicts *v);

// The verdict that memory outside of any allocation grows, whether or not a request has failed yet.

// Whether a trace has to be looked at for it (sites/leaks.h, which needs two more passes).
// `curve`: of the case's device.
int ct_untracked_verdict_is_possible(const struct ct_trace_case *c,
                                     const struct ct_untracked_curve *curve);
// Adds the verdict if `c->leaks` has growth that matters: more than was missing for the failed
// request, or, where none failed (`j` NULL), a part of the device. Returns whether it did.
int ct_untracked_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                             struct ct_verdicts *v);

#endif
