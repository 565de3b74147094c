// SPDX-License-Identifier: Apache-2.0
// The command explain: the verdicts of a trace, or what an error message, a log or a memory
// snapshot of PyTorch's says without one.
#ifndef CT_EXPLAIN_H
#define CT_EXPLAIN_H

#include <stdio.h>

#include "answer/view.h"
#include "base/json.h"
#include "diagnose/verdicts.h"
#include "read/file_kind.h"

// A file whose first bytes were read. Ended by ct_explain_close.
struct ct_explain_input {
    const char *path; // "-": standard input
    FILE *in;
    size_t n;
    char ahead[CT_FILE_KIND_BYTES];
};

int ct_explain_open(struct ct_explain_input *i, const char *path, struct ct_error *error);
void ct_explain_close(struct ct_explain_input *i);
// Whether it is a trace, which `explain` shows as a view does.
int ct_explain_is_trace(const struct ct_explain_input *i);
// Whether a path is that of a trace in a file, which can be read again.
int ct_explain_is_trace_file(const char *path);
// Makes the path one that can be read at any offset: a trace from a pipe becomes standard input, as
// a file in memory.
int ct_explain_make_seekable(struct ct_explain_input *i, struct ct_error *error);
// Explains what is no trace. Returns an exit code; with one that is not 0, `error` says why.
int ct_explain_print(const struct ct_arguments *o, const struct ct_terminal *terminal,
                     struct ct_explain_input *i, struct ct_error *error);

// The document of what is no trace: its begin, and its end, with what a trace would add.
void ct_explain_begin_json(struct ct_json *j, const char *path, const struct ct_verdicts *l);
void ct_explain_end_json(struct ct_json *j, const char *adds);
// The last lines of its text, which say that.
void ct_explain_print_adds(struct ct_view *v, const char *adds);
// Explains a memory snapshot of PyTorch's, of which `n` bytes were read ahead. Sets the view's
// `out`. 0, or -1 with the error set.
int ct_explain_snapshot(struct ct_view *v, const char *path, const char *ahead, size_t n, FILE *in,
                        struct ct_error *error);

#endif
