// SPDX-License-Identifier: Apache-2.0
// What the terminfo database says of a terminal, as term(5) has it, without ncurses.
#ifndef CT_TERMINFO_H
#define CT_TERMINFO_H

// How many colors it has; -1: no description of it is found.
int ct_terminfo_count_colors(const char *terminal);

#endif
