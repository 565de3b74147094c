// SPDX-License-Identifier: Apache-2.0
// What the recorder heard, what it did not see, and how much of the devices' memory nothing
// explains: as text and JSON.
#ifndef CT_VIEW_COVERAGE_H
#define CT_VIEW_COVERAGE_H

#include "analyze/coverage.h"
#include "analyze/untracked_curve.h"
#include "answer/view.h"
#include "base/json.h"

void ct_coverage_print_facts(struct ct_view *v, const struct ct_coverage *c);
void ct_coverage_print_share(struct ct_view *v, const struct ct_untracked_share *share);
// Adds it as the value of "coverage". `limits`: the sentence of print/trace_state.h.
void ct_coverage_add_json(struct ct_json *j, const char *limits, const struct ct_coverage *c,
                          const struct ct_untracked_share *share);

#endif
