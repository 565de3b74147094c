// SPDX-License-Identifier: Apache-2.0
// The table of commands and options (arguments.def) as data, and look-ups in it.
#ifndef CT_ARGUMENT_TABLE_H
#define CT_ARGUMENT_TABLE_H

#include <stddef.h>

enum ct_command {
#define CT_COMMAND(name, help, example) CT_COMMAND_##name,
#include "cli/arguments.def"
    CT_COMMANDS
};

enum ct_argument {
#define CT_ARGUMENT(NAME, name, letter, argument, commands, help) CT_ARGUMENT_##NAME,
#include "cli/arguments.def"
    CT_ARGUMENTS
};

struct ct_command_row {
    const char *name, *help, *example;
};

struct ct_argument_row {
    const char *name, *argument, *help; // `argument`: of its value, or NULL
    char letter;                        // or 0
    unsigned commands;                  // a bit for each that takes it
};

extern const struct ct_command_row ct_argument_table_commands[CT_COMMANDS];
extern const struct ct_argument_row ct_argument_table[CT_ARGUMENTS];

// -1: there is none.
int ct_argument_table_find_command(const char *word);
int ct_argument_table_find_name(const char *name, size_t length);
int ct_argument_table_find_letter(char letter);
int ct_argument_table_takes(enum ct_command command, enum ct_argument argument);
// What is written now in place of a command, or a --name, of before; NULL: it is none.
const char *ct_argument_table_now(const char *word, size_t length);
// The nearest command, or name of an option, to a mistyped one; NULL: none is near.
const char *ct_argument_table_nearest_command(const char *word);
const char *ct_argument_table_nearest_name(const char *name, size_t length);
// The length of the first clause of a help, which "; " ends outside of parentheses.
size_t ct_argument_table_clause(const char *help);
// Lists the options that a command takes: "--json, -n".
void ct_argument_table_list(enum ct_command command, char *to, size_t size);

#endif
