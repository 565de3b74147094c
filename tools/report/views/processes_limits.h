// SPDX-License-Identifier: Apache-2.0
// What the figures of several traces leave out: of each the sentence of its own report.
#ifndef CT_PROCESSES_LIMITS_H
#define CT_PROCESSES_LIMITS_H

#include "views/processes_shown.h"

// Prints a line "limits: ..." for each sentence, with the processes that it is about. `with_clean`:
// also where no trace names a limit.
void ct_processes_limits_print(const struct ct_processes_shown *s, int with_clean);

#endif
