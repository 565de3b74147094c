// SPDX-License-Identifier: Apache-2.0
// The command explain: the verdicts of a trace, or what an error message, a log or a memory
// snapshot of PyTorch's says without one.
#ifndef CT_EXPLAIN_H
#define CT_EXPLAIN_H

#include "views/views.h"

// The command that records a trace.
#define CT_EXPLAIN_RECORD "cutrace run -- COMMAND"

// Whether a path is that of a trace, which `explain` shows as a view does. A trace on standard
// input is known as one only if that is a file.
int ct_explain_is_trace(const char *path);
// Explains the file of this path, which is no trace, "-" is standard input. Returns an exit code;
// with one that is not 0, `error` says why.
int ct_explain_print(const struct ct_arguments *o, const struct ct_terminal *terminal,
                     const char *path, struct ct_error *error);

#endif
