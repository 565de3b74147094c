// SPDX-License-Identifier: Apache-2.0
// The views, one for each command: each turns a trace, or the results of its analysis, into text or
// JSON on the view's output.
#ifndef CT_VIEWS_H
#define CT_VIEWS_H

#include "answer/view.h"

// int ct_view_summary(struct ct_view *v) and its like: each is defined in its command's own file
// and returns an exit code.
#define CT_COMMAND(name, usage, help, example) int ct_view_##name(struct ct_view *v);
#include "cli/arguments.def"

#endif
