// SPDX-License-Identifier: Apache-2.0
#include "cli/argument_table.h"

// Sets of commands, for arguments.def.
#define ON(name) (1u << CT_COMMAND_##name)
#define ALL ((1u << CT_COMMANDS) - 1)
// FRAMES show stacks, EVENTS tell of events.
#define FRAMES \
    (ON(summary) | ON(oom) | ON(top) | ON(leaks) | ON(frag) | ON(phases) | ON(diff) | ON(dump))
#define EVENTS (FRAMES | ON(stats) | ON(timeline) | ON(export))

static const struct ct_command_row commands[CT_COMMANDS] = {
#define CT_COMMAND(name, usage, help, example) {#name, usage, help, "", example},
#include "cli/arguments.def"
};

static const struct ct_option_row options[CT_ARGUMENTS] = {
#define CT_ARGUMENT(NAME, name, letter, argument, commands, help) \
    {name, argument, help, letter, commands},
#include "cli/arguments.def"
};

static const struct ct_old_name old_names[] = {
#define CT_OLD_NAME(name, now) {name, now},
#include "cli/arguments.def"
};

const struct ct_command_line ct_argument_table = {
    .program = "cutrace-report",
    .commands = commands,
    .command_count = CT_COMMANDS,
    .options = options,
    .option_count = CT_ARGUMENTS,
    .old = old_names,
    .old_count = sizeof old_names / sizeof *old_names,
};

const char *ct_argument_table_name(enum ct_command command) {
    return commands[command].name;
}

int ct_argument_table_takes(enum ct_command command, enum ct_argument argument) {
    return ct_command_line_takes(&ct_argument_table, (int)command, (int)argument);
}

// ---- what holds for some commands only ----------------------------------------------------------

int ct_command_is_about_trace(enum ct_command command) {
    return command != CT_COMMAND_copy;
}

int ct_command_shows_frames(enum ct_command command) {
    return command != CT_COMMAND_timeline && command != CT_COMMAND_stats &&
           command != CT_COMMAND_info && command != CT_COMMAND_fit &&
           ct_command_is_about_trace(command);
}

int ct_command_needs_details(enum ct_command command) {
    return command == CT_COMMAND_dump || command == CT_COMMAND_stats ||
           command == CT_COMMAND_export || command == CT_COMMAND_copy || command == CT_COMMAND_info;
}
