// SPDX-License-Identifier: Apache-2.0
// How a function of the tools says that it could not do its work: an exit code and one line of text.
#ifndef CT_ERROR_H
#define CT_ERROR_H

#include <stdarg.h>
#include <stdio.h>

enum ct_exit_code {
    CT_EXIT_OK = 0,
    CT_EXIT_USAGE = 2,
    CT_EXIT_BAD_TRACE = 3,
    CT_EXIT_INCOMPLETE = 4, // analysed, but not whole, and --strict was given
    CT_EXIT_OUTPUT = 5,
};

struct ct_error {
    enum ct_exit_code status;
    char text[600]; // names the file, the place and the remedy; may hold bytes of the file's name
};

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
