// SPDX-License-Identifier: Apache-2.0
// The commands and options of cutrace (commands.def) as a table, its help, and its errors.
#ifndef CT_RUN_WORDS_H
#define CT_RUN_WORDS_H

#include "base/command_line.h"

enum ct_run_command {
#define CT_COMMAND(id, name, usage, help, more, example) CT_RUN_##id,
#include "run/commands.def"
    CT_RUN_COMMANDS
};

// Names begin with their command's: CT_WORD_RUN_OUTPUT.
enum ct_run_word {
#define CT_ARGUMENT(NAME, name, letter, argument, commands, help) CT_WORD_##NAME,
#include "run/commands.def"
    CT_RUN_WORDS
};

extern const struct ct_command_line ct_run_table;

// Variables that users set, without "CUTRACE_".
enum {
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) CT_VARIABLE_##NAME,
#define CT_INTERNAL(NAME, TYPE, text, lowest, highest, help)
#include <cutrace/format/options.def>
    CT_RUN_VARIABLES
};
struct ct_run_variable {
    const char *name, *value, *help; // value: that it has if it is not set
};
extern const struct ct_run_variable ct_run_variables[CT_RUN_VARIABLES];

enum { CT_WORDS_ENOUGH = -1 };

// Reads the words that follow a command: `set` is given each option, and each word that is none
// (CT_WORD_PLAIN). It returns 0, an exit code, or CT_WORDS_ENOUGH: what follows is not read. Prints
// the help where that is asked for. Returns 0, or 1: the command ends with *code.
int ct_words_read(enum ct_run_command command, int argc, char **argv, int *code,
                  int (*set)(void *to, int word, const struct ct_words *w), void *to);

// Prints the help of one command, or of all, on standard output. Returns 0 if that worked.
int ct_words_print_help(enum ct_run_command command);
void ct_words_print_all_help(FILE *out);

// Says on stderr, after "cutrace: ", why a command fails, and returns the exit code.
int ct_words_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- the commands -------------------------------------------------------------------------------

// `argv` begins after the command's name; each returns the exit code.

// Starts a program with libcutrace.so preloaded, and says what its traces show. A signal that ended
// the program ends this one.
int ct_run_main(int argc, char **argv);

// Whether tracing a command, or a process that runs, works, and why not.
int ct_doctor_main(int argc, char **argv);

// Sends a request to a running recorder, through its journal.
int ct_ctl_main(int argc, char **argv);

// Writes a server's metrics over time to a file.
int ct_record_metrics_main(int argc, char **argv);

// Shows what traced processes do, in the terminal or to Prometheus.
int ct_watch_main(int argc, char **argv);

#endif
