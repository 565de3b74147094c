// SPDX-License-Identifier: Apache-2.0
// The command explain: what an error message, a log or a memory snapshot of PyTorch's says, without
// any trace.
#ifndef CT_EXPLAIN_H
#define CT_EXPLAIN_H

#include "views/views.h"

// The command that records a trace.
#define CT_EXPLAIN_RECORD "cutrace run -- COMMAND"

// Explains the file of this path, "-" is standard input. Returns an exit code; with one that is not
// 0, `error` says why.
int ct_explain_print(const struct ct_arguments *o, const struct ct_terminal *terminal,
                     const char *path, struct ct_error *error);

#endif
