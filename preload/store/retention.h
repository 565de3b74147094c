// SPDX-License-Identifier: Apache-2.0
// CUTRACE_KEEP: a program that crashes again and again does not fill the disk with its traces.
#ifndef CT_KEEP_H
#define CT_KEEP_H

#include <stdint.h>

// Removes the oldest finished traces, with their journals, that `pattern` could have made in the folder of `file` (a
// name that it made), so that at most `keep` remain. A trace is finished when nobody holds its lock and its journal
// is gone or belongs to a process that is dead. Whatever else lies there stays. Drainer only.
void ct_retention_remove_old(const char *pattern, const char *file, uint64_t keep);

// Whether the pattern's last part could have made this name. For ct_retention_remove_old, and its tests.
int ct_retention_matches(const char *pattern, const char *name);

// Holds the lock of the trace that is written to fd, as long as fd is open anywhere.
void ct_retention_lock(int fd);

#endif
