// SPDX-License-Identifier: Apache-2.0
// The tables of both programs' commands and options, and of the environment, for the generators.
#ifndef CT_MANUAL_TABLES_H
#define CT_MANUAL_TABLES_H

#include <stddef.h>

enum ct_program { CT_PROGRAM_CUTRACE, CT_PROGRAM_REPORT, CT_PROGRAMS };

struct ct_manual_command {
    enum ct_program program;
    const char *name, *usage, *help, *more, *example; // usage, more, example: or NULL
};

struct ct_manual_option {
    enum ct_program program;
    const char *name, *argument, *help; // argument: or NULL
    char letter;                        // or 0
    int (*is_of)(size_t option, size_t command);
};

struct ct_manual_variable {
    const char *name, *value, *help;
};

extern const struct ct_manual_command ct_manual_commands[];
extern const size_t ct_manual_command_count;
extern const struct ct_manual_option ct_manual_options[];
extern const size_t ct_manual_option_count;
extern const struct ct_manual_variable ct_manual_variables[];
extern const size_t ct_manual_variable_count;

// Whether a command takes an option: indices of the tables above.
int ct_manual_takes(size_t command, size_t option);

#endif
