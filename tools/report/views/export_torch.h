// SPDX-License-Identifier: Apache-2.0
// The format torch of `export`, which has a window of events and figures of its own.
#ifndef CT_EXPORT_TORCH_H
#define CT_EXPORT_TORCH_H

#include "answer/view.h"

// Writes the snapshot to a new file and prints what it has; returns an exit code.
int ct_export_torch(struct ct_view *v, const char *path);

#endif
