// SPDX-License-Identifier: Apache-2.0
// Several traces: one table, a list of reports, or one page.
#ifndef CT_COMMAND_REPORT_SEVERAL_H
#define CT_COMMAND_REPORT_SEVERAL_H

#include "print/view.h"

// Reports what the command line names, a single trace included: in one table where the command
// looks at several traces together, else one report after the other. Returns the exit code.
int ct_report_several(const struct ct_arguments *o, const struct ct_terminal *terminal,
                      const struct ct_phase_rules *rules);

// Writes one page of all traces that can be read. Returns the exit code.
int ct_report_page(const struct ct_arguments *o, const struct ct_terminal *terminal,
                   const struct ct_phase_rules *rules);

#endif
