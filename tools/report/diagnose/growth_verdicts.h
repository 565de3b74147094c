// SPDX-License-Identifier: Apache-2.0
// The verdicts about memory that grows: a leak, and untracked memory.
#ifndef CT_GROWTH_VERDICTS_H
#define CT_GROWTH_VERDICTS_H

#include "diagnose/trace_case.h"

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
