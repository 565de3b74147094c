// SPDX-License-Identifier: Apache-2.0
// Appends to a trace's file what only its journal has. The journal is the caller's to remove,
// afterwards, so that what was interrupted can be repeated.
#ifndef CT_SEAL_TRACE_H
#define CT_SEAL_TRACE_H

#include "base/error.h"
#include "read/trace.h"

// Locks the file, so that two programs do not seal it at the same time; closing `fd` unlocks it. 0,
// or -1: another program has done so.
int ct_seal_trace_lock(int fd);
// `fd`: the file, open for writing. Returns 0, or -1 with the error set and the file as it was.
int ct_seal_trace_append(const struct ct_trace *t, int fd, struct ct_error *error);

#endif
