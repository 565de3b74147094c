// SPDX-License-Identifier: Apache-2.0
// The names of the program's marks, below a picture or a table of the same time.
#ifndef CT_PROGRAM_MARKS_TEXT_H
#define CT_PROGRAM_MARKS_TEXT_H

#include "analyze/program_marks.h"
#include "answer/view.h"

// Prints the first few, or --top of them. Prints nothing without a mark.
void ct_program_marks_print(struct ct_view *v, const struct ct_program_marks *m);

#endif
