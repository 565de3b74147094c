// SPDX-License-Identifier: Apache-2.0
// How a function of cutrace-report says why it failed: an exit code and one line of text.
#ifndef CT_ERROR_H
#define CT_ERROR_H

#include <stdarg.h>
#include <stdio.h>

enum ct_exit_code {
    CT_EXIT_OK = 0,
    CT_EXIT_CONDITION = 1, // one of --fail-on is met
    CT_EXIT_USAGE = 2,
    CT_EXIT_BAD_TRACE = 3,
    CT_EXIT_INCOMPLETE = 4, // the end of the trace is missing; with --strict: anything is
    CT_EXIT_OUTPUT = 5,
    CT_EXIT_MEMORY = 6, // the program itself ran out of memory
};

// `text` names the file, the offset and the remedy. It may hold any byte that a file name may have.
struct ct_error {
    enum ct_exit_code status;
    char text[600];
};

// Always returns -1, so that a function can return it.
__attribute__((format(printf, 3, 4))) static inline int ct_error_set(struct ct_error *error,
                                                                     enum ct_exit_code status,
                                                                     const char *format, ...) {
    va_list args;
    va_start(args, format);
    error->status = status;
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return -1;
}

#endif
