// SPDX-License-Identifier: Apache-2.0
// The commands and options of a program as one table: reading a command line by it, and help. The
// manual and the completion of shells are made of the same table.
#ifndef CT_COMMAND_LINE_H
#define CT_COMMAND_LINE_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

struct ct_command_row {
    const char *name, *usage, *help; // usage: what follows the name
    const char *more;                // after the options: exit codes; ""
    const char *example;             // what follows the program's name; NULL
};

struct ct_option_row {
    const char *name;
    const char *argument; // of its value, in brackets if that may be left out; NULL: it has none
    const char *help;  // clauses with "; " between them; one that begins with names of commands, as
                       // "top, frag: ...", is of these alone
    char letter;       // or 0
    unsigned commands; // a bit for each that takes it
};

// What is written now in place of a command, or a --name, of before.
struct ct_old_name {
    const char *name, *now;
};

struct ct_command_line {
    const char *program;
    const struct ct_command_row *commands;
    int command_count;
    const struct ct_option_row *options;
    int option_count;
    const struct ct_old_name *old; // NULL: none
    int old_count;
};

// A word of the command line that is no option; an option is the number of its row.
enum { CT_WORD_PLAIN = -1, CT_WORD_END = -2, CT_WORD_WRONG = -3 };

struct ct_words {
    const struct ct_command_line *table;
    int command; // whose options they are; -1: any command's
    int argc;
    char **argv;
    int at;                // the next word
    int only_plain;        // "--" was read
    const char *value;     // of the option, NULL without one; or the plain word
    struct ct_error error; // of CT_WORD_WRONG
};

// Reads the next word. A value is in the same word, or the next one unless it may be left out.
int ct_words_next(struct ct_words *w);

// -1: there is no such command; `nearest` is the one that may have been meant, or NULL.
int ct_command_line_find_command(const struct ct_command_line *table, const char *word,
                                 const char **nearest);
// What is written now in place of a name of before; NULL: it is none.
const char *ct_command_line_now(const struct ct_command_line *table, const char *word,
                                size_t length);
int ct_command_line_takes(const struct ct_command_line *table, int command, int option);
// The length of the first clause of a help, which "; " ends outside of parentheses.
size_t ct_command_line_clause(const char *help);

// `out` lays text out (base/wrap.h). A command's help begins with its usage.
void ct_command_line_print_command(const struct ct_command_line *table, int command, FILE *out);
// command -1: of all commands.
void ct_command_line_print_option(const struct ct_command_line *table, int option, int command,
                                  FILE *out);
void ct_command_line_print_options(const struct ct_command_line *table, int command, FILE *out);
void ct_command_line_print_row(const char *name, const char *help, FILE *out);

// ---- mistyped words -----------------------------------------------------------------------------

struct ct_nearest {
    const char *typed;
    size_t length;    // of `typed`
    const char *best; // NULL: no word is near enough
    size_t edits;
};

// Looks at one more word that may have been meant. At most 2 insertions, deletions, replacements or
// exchanges of neighbours are a mistyping, and fewer than the word is long.
void ct_nearest_try(struct ct_nearest *n, const char *word);

#endif
