// SPDX-License-Identifier: Apache-2.0
// What to change, by the figures of a trace: the account of the failed request, and the settings of
// the process's command line or of the log beside the trace. A value is named only where all that
// it is computed from is known.
#ifndef CT_TRACE_ADVICE_H
#define CT_TRACE_ADVICE_H

#include "diagnose/trace_case.h"

// How many bytes more than were free the phase of the request needs, at least.
uint64_t ct_trace_advice_need(const struct ct_judged *j);
// Adds advice to leave so many bytes more outside of the server's KV cache. `purpose` ends a
// sentence: ", so that ..." or "".
void ct_trace_advice_leave(const struct ct_judged *j, struct ct_verdict *v, uint64_t bytes,
                           const char *purpose);
// The same for code outside of the server whose own request failed: others of it may follow.
void ct_trace_advice_room(const struct ct_judged *j, struct ct_verdict *v);
void ct_trace_advice_fragmentation(const struct ct_judged *j, struct ct_verdict *v);
// Adds the advice of the scenario that a phase leads to.
void ct_trace_advice_add(const struct ct_judged *j, struct ct_verdict *v);
// Gives the advice of a log, which knows less than its trace, the values that fit names by both.
void ct_trace_advice_bound(const struct ct_vllm_fit *f, struct ct_verdicts *of_log);

#endif
