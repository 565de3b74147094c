// SPDX-License-Identifier: Apache-2.0
// Several traces: one table of their processes in place of a report for each.
#ifndef CT_PROCESSES_VIEW_H
#define CT_PROCESSES_VIEW_H

#include "base/error.h"
#include "views/views.h"

// Whether the options ask about one trace only, so that there is no table: 0, or -1 with the error
// set (exit code 2).
int ct_processes_check_options(const struct ct_arguments *o, struct ct_error *error);
// Reads all traces and prints the table, or the JSON document of all. `warn` is called for each
// trace that can be read; NULL: warnings and errors were printed before. Returns an exit code.
int ct_processes_print(const struct ct_arguments *o, const struct ct_terminal *terminal,
                       void (*warn)(const struct ct_view *));

#endif
