// SPDX-License-Identifier: Apache-2.0
// The verdicts over several traces as text.
#ifndef CT_PROCESSES_VERDICTS_H
#define CT_PROCESSES_VERDICTS_H

#include "views/processes_shown.h"

// How much of the first verdict and its first advice the table begins with.
enum ct_processes_verdict_length { CT_PROCESSES_WHOLE, CT_PROCESSES_NO_SUMMARY, CT_PROCESSES_NAME };

// Prints the first verdict and its first advice, unless nothing failed.
void ct_processes_verdicts_print_first(const struct ct_processes_shown *s,
                                       enum ct_processes_verdict_length length);
// Prints the first `most` verdicts in full.
void ct_processes_verdicts_print(const struct ct_processes_shown *s, size_t most);

#endif
