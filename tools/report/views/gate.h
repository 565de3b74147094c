// SPDX-License-Identifier: Apache-2.0
// --fail-on: whether a trace, or the second one of a diff, meets a condition that a test must not
// meet. README.md has the exit codes.
#ifndef CT_GATE_H
#define CT_GATE_H

#include "answer/view.h"

// Judges a trace, prints a line on stderr for each condition that is met or cannot be judged, and
// returns the exit code: CT_EXIT_CONDITION if one is met, else CT_EXIT_INCOMPLETE if one cannot be
// judged, else CT_EXIT_OK. `before`: A of a diff; NULL: none.
int ct_gate_judge(struct ct_view *v, struct ct_view *before);
// The exit code for two of them: a condition that is met before all but a failed output, what is
// unknown before a trace that cannot be read.
int ct_gate_worse(int a, int b);

#endif
