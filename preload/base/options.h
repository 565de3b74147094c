// SPDX-License-Identifier: Apache-2.0
// What the environment asks for, read once.
#ifndef CT_OPTIONS_H
#define CT_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

enum ct_option {
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) CT_OPTION_##NAME,
#include <cutrace/format/options.def>
    CT_OPTIONS
};

enum ct_stacks_of { CT_STACKS_OF_OFF, CT_STACKS_OF_NATIVE, CT_STACKS_OF_PYTHON, CT_STACKS_OF_BOTH };
enum ct_argv_of { CT_ARGV_OF_OFF, CT_ARGV_OF_FLAGS, CT_ARGV_OF_FULL };

struct ct_option_value {
    const char *text; // as given, or the default
    uint64_t number;  // of all types but TEXT; milliseconds as nanoseconds
    int given;        // set by the user, and valid
};

// Values after ct_tracing_is_on() was called for the first time.
extern struct ct_option_value ct_options[CT_OPTIONS];

#define CT_OPTION_NUMBER(NAME) (ct_options[CT_OPTION_##NAME].number)
#define CT_OPTION_TEXT(NAME) (ct_options[CT_OPTION_##NAME].text)

// The variable's name without CUTRACE_.
const char *ct_options_get_name(enum ct_option option);

// Parses an environment (NULL-terminated) into ct_options: returns whether tracing is on. What is
// to be said to the user goes to `say`, one call for each line. Values are copied.
int ct_options_read(char *const *environment, void (*say)(const char *line));

#endif
