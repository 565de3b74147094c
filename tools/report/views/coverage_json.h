// SPDX-License-Identifier: Apache-2.0
// The document of coverage.
#ifndef CT_COVERAGE_JSON_H
#define CT_COVERAGE_JSON_H

#include "analyze/coverage.h"
#include "analyze/untracked_share.h"
#include "print/view_scan.h"

void ct_coverage_print_json(struct ct_view *v, const struct ct_scan *s, const struct ct_coverage *c,
                            const struct ct_untracked_share *share);

#endif
