// SPDX-License-Identifier: Apache-2.0
// check --quick: what the prefixes and digests of a trace say of themselves.
#ifndef CT_CHECK_QUICK_H
#define CT_CHECK_QUICK_H

#include "cli/arguments.h"

// Reads no body and no journal. Returns the exit status. `in_list`: as in report_trace.h.
int ct_check_quick(const struct ct_arguments *options, const char *path, int in_list);

#endif
