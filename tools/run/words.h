// SPDX-License-Identifier: Apache-2.0
// The command line of cutrace, by the table of its commands (commands.def), and --help.
#ifndef CT_WORDS_H
#define CT_WORDS_H

#include <stddef.h>
#include <stdio.h>

enum ct_run_command {
#define CT_COMMAND(id, name, usage, help, more) CT_RUN_##id,
#include "run/commands.def"
    CT_RUN_COMMANDS
};

// Names of options begin with their command's: CT_WORD_run_OUTPUT.
enum ct_word {
#define CT_ARGUMENT(id, NAME, name, letter, argument, help) CT_WORD_##id##_##NAME,
#include "run/commands.def"
    CT_WORDS,
    CT_WORD_PLAIN, // no option: `value`
    CT_WORD_HELP,  // -h, --help, of every command
    CT_WORD_END,
    CT_WORD_WRONG, // and one line on stderr says why
};

struct ct_words {
    enum ct_run_command command;
    int argc; // of `argv`, which begins after the command
    char **argv;
    int at;            // the next word
    int options_ended; // by --
    const char *value;
};

// -1: there is no such command; `nearest` is the one that may have been meant, or NULL.
int ct_words_find_command(const char *name, const char **nearest);
// Reads the next word. The value of an option may be the word after it, unless the table has it in
// brackets: then it may be left out, and `value` is NULL.
enum ct_word ct_words_next(struct ct_words *w);

// The help of one command, or of all.
void ct_words_print_help(FILE *out, enum ct_run_command command);
void ct_words_print_all_help(FILE *out);

// Says on stderr, after "cutrace: ", why a command fails, and returns the exit code.
int ct_words_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
