// SPDX-License-Identifier: Apache-2.0
// The options of the recorder: the environment variables CUTRACE_* of options.def, parsed once.
// Written before the first event and after that only read, so any thread may read them.
#ifndef CT_BASE_OPTIONS_H
#define CT_BASE_OPTIONS_H

#include <stdint.h>

enum ct_option {
#define CT_OPTION(NAME, TYPE, text, lowest, highest, help) CT_OPTION_##NAME,
#include <cutrace/format/options.def>
    CT_OPTIONS
};

enum ct_stacks_of { CT_STACKS_OF_OFF, CT_STACKS_OF_NATIVE, CT_STACKS_OF_PYTHON, CT_STACKS_OF_BOTH };
enum ct_backend_of { CT_BACKEND_OF_PRELOAD, CT_BACKEND_OF_CUPTI };
enum ct_argv_of { CT_ARGV_OF_OFF, CT_ARGV_OF_FLAGS, CT_ARGV_OF_FULL };

struct ct_option_value {
    const char *text; // as given, or the default
    uint64_t number;  // of all types but TEXT; milliseconds become nanoseconds
    int given;        // the user set it to a valid value
};

// Valid after ct_options_read.
extern struct ct_option_value ct_options[CT_OPTIONS];

#define CT_OPTION_NUMBER(NAME) (ct_options[CT_OPTION_##NAME].number)
const char *ct_option_get_default(enum ct_option option);
#define CT_OPTION_TEXT(NAME) (ct_options[CT_OPTION_##NAME].text)

// The name of the variable without CUTRACE_.
const char *ct_options_get_name(enum ct_option option);

// Parses an environment (NULL-terminated) into ct_options and copies the values. Returns whether
// tracing is on. Passes each line for the user to `print`.
int ct_options_read(char *const *environment, void (*print)(const char *line));

// Writes a line to stderr (ct_print_stderr), unless CUTRACE_QUIET says not to.
void ct_options_say(const char *line);

#endif
