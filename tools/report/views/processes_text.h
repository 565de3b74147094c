// SPDX-License-Identifier: Apache-2.0
// Several processes as one screen of text.
#ifndef CT_PROCESSES_TEXT_H
#define CT_PROCESSES_TEXT_H

#include "views/processes_shown.h"

// The table: what failed and why, the processes, the GPUs. At most 24 lines where possible.
void ct_processes_text_print(struct ct_processes_shown *s);
// Only what failed, or what the most was, and the verdict.
void ct_processes_text_print_answer(struct ct_processes_shown *s);
// The verdicts in full.
void ct_processes_text_explain(struct ct_processes_shown *s);

#endif
