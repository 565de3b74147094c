// SPDX-License-Identifier: Apache-2.0
// explain of a memory snapshot of PyTorch's.
#ifndef CT_EXPLAIN_SNAPSHOT_H
#define CT_EXPLAIN_SNAPSHOT_H

#include "answer/view.h"

// Explains a snapshot of which `n` bytes were read ahead. Sets the view's `out`. 0, or -1 with the
// error set.
int ct_explain_snapshot(struct ct_view *v, const char *path, const char *ahead, size_t n, FILE *in,
                        struct ct_error *error);

#endif
