// SPDX-License-Identifier: Apache-2.0
// Terminal manners: colours, width, pager, progress.
#ifndef CT_TERM_H
#define CT_TERM_H

#include <stdint.h>

#include "views/arguments.h"

struct ct_terminal {
    int is_terminal;
    int color;
    int utf8;
    unsigned width;
    const char *bold, *red, *dim, *reset; // sequences, or ""
};

void ct_terminal_init(struct ct_terminal *t, const struct ct_options *o);
// Sends stdout through the user's pager if it is a terminal. ct_terminal_end waits for it.
void ct_terminal_start_pager(const struct ct_terminal *t, const struct ct_options *o);
void ct_terminal_end(void);
// For ct_trace.progress; `user` is unused.
void ct_progress_report(void *user, uint64_t done, uint64_t total);
void ct_progress_init(const struct ct_options *o);
void ct_progress_clear(void);
// One line on stderr, made harmless for a terminal.
void ct_say(const char *text);

#endif
