// SPDX-License-Identifier: Apache-2.0
// The progress of long work, on stderr.
#ifndef CT_PROGRESS_H
#define CT_PROGRESS_H

#include <stdint.h>

#include "views/arguments.h"

void ct_progress_init(const struct ct_arguments *o);
// For ct_trace.progress; `user` is unused.
void ct_progress_report(void *user, uint64_t done, uint64_t total);
// Erases the line, before something else is printed.
void ct_progress_clear(void);

#endif
