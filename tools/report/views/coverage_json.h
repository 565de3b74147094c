// SPDX-License-Identifier: Apache-2.0
// What may be missing from a trace, as JSON.
#ifndef CT_COVERAGE_JSON_H
#define CT_COVERAGE_JSON_H

#include "analyze/coverage.h"
#include "analyze/untracked_share.h"
#include "base/json.h"

// Adds it as the value of "coverage". `limits`: the sentence of print/coverage_limits.h.
void ct_coverage_add_json(struct ct_json *j, const char *limits, const struct ct_coverage *c,
                          const struct ct_untracked_share *share);

#endif
