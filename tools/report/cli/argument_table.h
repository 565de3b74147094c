// SPDX-License-Identifier: Apache-2.0
// The commands and options of cutrace-report (arguments.def) as a table.
#ifndef CT_ARGUMENT_TABLE_H
#define CT_ARGUMENT_TABLE_H

#include "base/command_line.h"

enum ct_command {
#define CT_COMMAND(name, usage, help, example) CT_COMMAND_##name,
#include "cli/arguments.def"
    CT_COMMANDS
};

enum ct_argument {
#define CT_ARGUMENT(NAME, name, letter, argument, commands, help) CT_ARGUMENT_##NAME,
#include "cli/arguments.def"
    CT_ARGUMENTS
};

extern const struct ct_command_line ct_argument_table;

const char *ct_argument_table_name(enum ct_command command);
int ct_argument_table_takes(enum ct_command command, enum ct_argument argument);

// Whether the command says something of the trace. The others copy it, or change it.
int ct_command_is_about_trace(enum ct_command command);
// Whether it shows frames of stacks, so that source lines matter.
int ct_command_shows_frames(enum ct_command command);
// Whether late durations and stacks of frees matter: to lists of events, to copies, and to a check,
// which finds what a copy would have.
int ct_command_needs_details(enum ct_command command);

#endif
