// SPDX-License-Identifier: Apache-2.0
#include "manual/tables.h"

#include <string.h>

#include "cli/argument_table.h"
#include "run/words.h"

const struct ct_manual_command ct_manual_commands[] = {
#define CT_COMMAND(id, name, usage, help, more) {CT_PROGRAM_CUTRACE, name, usage, help, more, NULL},
#include "run/commands.def"
#define CT_COMMAND(name, help, example) {CT_PROGRAM_REPORT, #name, NULL, help, NULL, example},
#include "cli/arguments.def"
    {CT_PROGRAM_REPORT, "help", NULL, "all commands and options; help COMMAND: of the command",
     NULL, "help oom"},
};
const size_t ct_manual_command_count = sizeof ct_manual_commands / sizeof *ct_manual_commands;

// An option of cutrace belongs to one command, or to all of them.
static const int owners[] = {
#define CT_ARGUMENT(id, NAME, name, letter, argument, help) CT_RUN_##id,
#include "run/commands.def"
};

static int is_of_run_command(size_t option, size_t command) {
    return owners[option] == (int)command;
}

static int is_of_all(size_t option, size_t command) {
    (void)option;
    (void)command;
    return 1;
}

enum { RUN_OPTIONS = CT_WORDS + 1 }; // with --help

static int is_of_report_command(size_t option, size_t command) {
    const size_t at = command - CT_RUN_COMMANDS;
    return at < CT_COMMANDS &&
           ct_argument_table_takes((enum ct_command)at, (enum ct_argument)(option - RUN_OPTIONS));
}

const struct ct_manual_option ct_manual_options[] = {
#define CT_ARGUMENT(id, NAME, name, letter, argument, help) \
    {CT_PROGRAM_CUTRACE, name, argument, help, letter, is_of_run_command},
#include "run/commands.def"
    {CT_PROGRAM_CUTRACE, "help", NULL, "the help of the command", 'h', is_of_all},
#define CT_ARGUMENT(NAME, name, letter, argument, commands, help) \
    {CT_PROGRAM_REPORT, name, argument, help, letter, is_of_report_command},
#include "cli/arguments.def"
};
const size_t ct_manual_option_count = sizeof ct_manual_options / sizeof *ct_manual_options;

const struct ct_manual_variable ct_manual_variables[] = {
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) {"CUTRACE_" #NAME, text, help},
#define CT_INTERNAL(NAME, TYPE, text, lowest, highest, help)
#include <cutrace/format/options.def>
};
const size_t ct_manual_variable_count = sizeof ct_manual_variables / sizeof *ct_manual_variables;

int ct_manual_takes(size_t command, size_t option) {
    return ct_manual_commands[command].program == ct_manual_options[option].program &&
           ct_manual_options[option].is_of(option, command);
}
