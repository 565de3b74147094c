// SPDX-License-Identifier: Apache-2.0
// Formatting without the host's heap or stdio: the C library's snprintf may allocate and takes
// locale locks.
#ifndef CT_TEXT_H
#define CT_TEXT_H

#include <stdarg.h>
#include <stddef.h>

// Like vsnprintf for %s %c %d %i %u %x %p %%, with l, ll, z, flags - and 0, width, precision (for
// %s and %f), and %f (at most 9 decimals). The result is always terminated; returns the length that
// is in the buffer.
size_t ct_print_va(char *buffer, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
size_t ct_print(char *buffer, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A line on stderr by one write(2), whatever happens to it: no SIGPIPE, errno kept.
void ct_say(const char *line);

// What an error of a file means, in a few words.
const char *ct_print_strerror(int error);

#endif
