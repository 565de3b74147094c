// SPDX-License-Identifier: Apache-2.0
// Several traces: one table of their processes, and verdicts over all of them, in place of a report
// for each.
#ifndef CT_PROCESSES_VIEW_H
#define CT_PROCESSES_VIEW_H

#include "base/error.h"
#include "views/processes_shown.h"

// Whether the options ask about one trace only, so that there is no table: 0, or -1 with the error
// set (exit code 2).
int ct_processes_check_options(const struct ct_arguments *o, struct ct_error *error);
// Reads all traces. `warn` is called for each trace that can be read; NULL: the caller prints
// warnings and errors. Returns 0, or -1 with the error set: a file beside the traces cannot be
// read.
int ct_processes_read(struct ct_processes_shown *s, const struct ct_arguments *o,
                      const struct ct_terminal *terminal, const struct ct_phase_rules *rules,
                      void (*warn)(const struct ct_view *), struct ct_error *error);
// Prints the table, or for `explain` the verdicts, or the JSON document of all. Returns an exit
// code.
int ct_processes_print(struct ct_processes_shown *s);
void ct_processes_close(struct ct_processes_shown *s);

#endif
