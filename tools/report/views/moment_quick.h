// SPDX-License-Identifier: Apache-2.0
// top --quick and frag --quick: what is live at a moment, from the recorder's nearest checkpoint.
// Peaks, totals and growth, which need all events, are not shown.
#ifndef CT_MOMENT_QUICK_H
#define CT_MOMENT_QUICK_H

#include "answer/view.h"
#include "question/question.h"

// Reads the part of the trace that the moment needs. 0, or -1 with the error set: the trace does
// not have it. In both cases ct_moment_part_free follows.
int ct_moment_quick_read(struct ct_moment_part *p, struct ct_view *v, struct ct_error *error);
// Prints text or JSON. Returns the exit status.
int ct_moment_quick_print(struct ct_moment_part *p, struct ct_view *v);

#endif
