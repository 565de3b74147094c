// SPDX-License-Identifier: Apache-2.0
// What the verdicts about memory that grows have in common: a leak, and untracked memory.
#ifndef CT_GROWTH_VERDICT_H
#define CT_GROWTH_VERDICT_H

#include "diagnose/trace_case.h"

// Less than this part of the device is no problem yet.
enum { CT_GROWTH_LEAST_PART = 100 };

// Adds the verdict of a growth of so many bytes: of the failed request `j`, else (NULL) of a trace
// without one. Returns NULL if the growth is too small to matter.
struct ct_verdict *ct_growth_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                                         struct ct_verdicts *v, enum ct_scenario scenario,
                                         uint64_t bytes, double confidence, const char *summary);
// Adds the evidence that a growth is: "2.44 GiB in 26 allocations since +15.695 s, 1.20 GiB a
// minute, steady". `what` stands after the bytes, "" for nothing.
struct ct_evidence *ct_growth_verdict_add_shape(const struct ct_trace_case *c,
                                                const struct ct_growth_shape *s, const char *what,
                                                struct ct_verdict *v);
// Adds when the device is full, of a trace in which nothing has failed.
void ct_growth_verdict_add_full(const struct ct_trace_case *c, int known, uint64_t in_ns,
                                struct ct_verdict *v);

#endif
