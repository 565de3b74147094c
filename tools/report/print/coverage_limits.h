// SPDX-License-Identifier: Apache-2.0
// The sentence that says what a report leaves out (analyze/coverage.h), the same in every view.
#ifndef CT_COVERAGE_LIMITS_H
#define CT_COVERAGE_LIMITS_H

#include "analyze/coverage.h"
#include "answer/view.h"

// Writes it to `to`, which has CT_COVERAGE_LIMITS bytes. `lost`: events that are lost. Returns
// whether something is left out, as far as is known.
int ct_coverage_limits_write(const struct ct_view *v, uint64_t lost, char *to);
// Prints the line "limits: ...".
void ct_coverage_limits_print(struct ct_view *v, uint64_t lost);

#endif
