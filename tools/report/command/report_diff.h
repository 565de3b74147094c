// SPDX-License-Identifier: Apache-2.0
// Two traces, or two moments of one, side by side.
#ifndef CT_COMMAND_REPORT_DIFF_H
#define CT_COMMAND_REPORT_DIFF_H

#include "print/view.h"

// Returns the exit code.
int ct_report_diff(const struct ct_arguments *o, const struct ct_terminal *terminal,
                   const struct ct_phase_rules *rules);

#endif
