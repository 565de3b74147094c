// SPDX-License-Identifier: Apache-2.0
// What the page has of the command coverage.
#ifndef CT_VIEW_COVERAGE_H
#define CT_VIEW_COVERAGE_H

#include "analyze/coverage.h"
#include "analyze/untracked_share.h"
#include "print/view.h"

// Prints what the recorder heard and what went past it.
void ct_coverage_view_print_facts(struct ct_view *v, const struct ct_coverage *c);
// The share of untracked memory in the time of a view, before its first event.
struct ct_untracked_share ct_coverage_view_share(const struct ct_view *v);

#endif
