// SPDX-License-Identifier: Apache-2.0
// The progress of long work, on stderr where that is a terminal.
#ifndef CT_PROGRESS_H
#define CT_PROGRESS_H

#include <stdint.h>

// Of one of several traces that are read at the same time. Only progress.c looks at the figures.
struct ct_progress_part {
    struct ct_progress_part *next;
    uint64_t done, total;
};

void ct_progress_init(void);
// From here on progress is that of these parts together. NULL: that of one trace again. While they
// are read, nothing else may be printed on stderr.
void ct_progress_begin_parts(struct ct_progress_part *first);
// For ct_trace.progress, from any thread; `user` is the part, or NULL.
void ct_progress_report(void *user, uint64_t done, uint64_t total);
// Shows a line above the progress. It is shorter than the terminal is wide.
void ct_progress_show_headline(const char *line);
// Erases all of it, before something else is printed.
void ct_progress_clear(void);

#endif
