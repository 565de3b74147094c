// SPDX-License-Identifier: Apache-2.0
// The verdicts of a trace: which scenario its out-of-memory is, from the phase of the failed
// request, what it was for, and what held the device then.
#ifndef CT_TRACE_VERDICTS_H
#define CT_TRACE_VERDICTS_H

#include "diagnose/trace_case.h"

// Adds the verdicts, in the order of confidence; at least one. The log's are joined: where no
// request failed in the trace, it can know more.
void ct_trace_verdicts_find(const struct ct_trace_case *c, struct ct_verdicts *v);

#endif
