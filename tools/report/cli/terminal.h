// SPDX-License-Identifier: Apache-2.0
// The user's terminal: colours, width, pager, and messages on stderr.
#ifndef CT_TERMINAL_H
#define CT_TERMINAL_H

#include "base/buffer.h"
#include "base/wrap.h"
#include "cli/arguments.h"

struct ct_terminal {
    int is_terminal; // stdout is one
    int color;
    int utf8;
    unsigned width;       // in columns; without a terminal that of text in a bug report
    const char *ellipsis; // what stands for the middle of a long name; NULL: names stay whole
    const char *bold, *red, *dim, *reset; // escape sequences, or ""
};

void ct_terminal_init(struct ct_terminal *t, const struct ct_arguments *o);
// Sends stdout through the user's pager if it is a terminal. ct_terminal_end waits for the pager.
void ct_terminal_start_pager(const struct ct_terminal *t, const struct ct_arguments *o);
void ct_terminal_end(void);
// Opens a stream that lays text out for the terminal and writes it to `out`.
FILE *ct_terminal_open_text(const struct ct_terminal *t, FILE *out);
// Prints one line on stderr, made harmless for a terminal.
void ct_terminal_warn(const char *text);
// Keeps what this thread warns of in place of printing it, so that warnings of work that several
// threads do at a time can be printed in the order of the work. NULL: prints again.
void ct_terminal_keep_warnings(struct ct_buffer *kept);
// Prints what was kept, and frees it.
void ct_terminal_print_kept(struct ct_buffer *kept);

#endif
