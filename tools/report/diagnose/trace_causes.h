// SPDX-License-Identifier: Apache-2.0
// What took the place of a request that failed: something other than the phase that asked. Each
// rule adds a verdict of its own if it holds, and returns whether it did.
#ifndef CT_TRACE_CAUSES_H
#define CT_TRACE_CAUSES_H

#include "diagnose/trace_case.h"

// The request was not one for memory of the device, or could never be served, or PyTorch's own
// limit refused it: no other rule has anything to say then.
int ct_trace_causes_not_full(const struct ct_judged *j);
// Something else held what was missing.
int ct_trace_causes_full(const struct ct_judged *j);

// Adds what code outside of the server holds in its process. Returns 0 if that is less than was
// missing.
int ct_trace_causes_add_own(const struct ct_judged *j, struct ct_verdict *v);

#endif
