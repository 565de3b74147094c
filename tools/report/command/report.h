// SPDX-License-Identifier: Apache-2.0
// What a command line asks for: a report of one trace, of two side by side, of several.
#ifndef CT_COMMAND_REPORT_H
#define CT_COMMAND_REPORT_H

#include "views/views.h"

// Where a report is one of several: `in_list` of JSON, and of the traces that are looked at
// together (NULL: each for itself) the position of this one.
struct ct_report_place {
    int in_list;
    const struct ct_processes *processes;
    size_t process;
    struct ct_page *page; // of the command html
};

// Opens the trace (for `explain` also a text or a snapshot), shows it and judges the conditions of
// --fail-on. Returns the exit code.
int ct_report_trace(const struct ct_arguments *o, const struct ct_terminal *terminal,
                    const struct ct_phase_rules *rules, const char *path,
                    const struct ct_report_place *place);

// Says why a trace is not shown. `in_list`: it is an element of a JSON list, which is null then.
int ct_report_error(const struct ct_error *error, int in_list);

// Judges the conditions of --fail-on, after the report. `before`: of a diff, else NULL.
int ct_report_judge(struct ct_view *v, struct ct_view *before);

// Reports two traces, or two moments of one, side by side. Returns the exit code.
int ct_report_diff(const struct ct_arguments *o, const struct ct_terminal *terminal,
                   const struct ct_phase_rules *rules);

// Reports what the command line names, a single trace included: in one table where the command
// looks at several traces together, else one report after the other. Returns the exit code.
int ct_report_several(const struct ct_arguments *o, const struct ct_terminal *terminal,
                      const struct ct_phase_rules *rules);

// Writes one page of all traces that can be read. Returns the exit code.
int ct_report_page(const struct ct_arguments *o, const struct ct_terminal *terminal,
                   const struct ct_phase_rules *rules);

#endif
