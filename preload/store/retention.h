// SPDX-License-Identifier: Apache-2.0
// The retention of old traces (CUTRACE_KEEP): a program that crashes again and again does not fill
// the disk with them. Drain lock held.
#ifndef CT_STORE_RETENTION_H
#define CT_STORE_RETENTION_H

#include <stdint.h>

// Removes the oldest finished traces and their journals, so that at most max_traces remain, in the
// folder of `file`. Only files with a name that `pattern` can expand to are traces. A trace is
// finished when no process holds its lock, and its journal is gone or belongs to a dead process.
void ct_retention_remove_old(const char *pattern, const char *file, uint64_t max_traces);

// Whether the last component of the pattern can expand to this name.
int ct_retention_matches(const char *pattern, const char *name);

// Locks the trace that is written to fd, until the last copy of fd is closed.
void ct_retention_lock(int fd);

#endif
