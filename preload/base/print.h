// SPDX-License-Identifier: Apache-2.0
// Formatting without the host's heap or stdio: the C library's snprintf may allocate and takes
// locale locks. Any thread.
#ifndef CT_BASE_PRINT_H
#define CT_BASE_PRINT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

// Formats like snprintf: %s %c %d %i %u %x %p %f %% with l, ll, z, the flags - and 0, a width, and
// a precision for %s and %f (at most 9 decimals). `size` is at least 1. Always terminates the text
// and cuts it where the buffer ends. Returns the length of the text in the buffer.
size_t ct_print(char *buffer, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t ct_print_va(char *buffer, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

// Writes a character as UTF-8, in at most 4 bytes; what is none (a surrogate, a number above
// 0x10FFFF) as the other one. Returns the number of bytes.
size_t ct_print_utf8(char *to, uint32_t c, uint32_t otherwise);

// Writes a line to stderr by one write(2) and ignores errors. Raises no SIGPIPE and keeps errno.
// Writes nothing where descriptor 2 may have become a file of the program's own: it must lead to
// what it led to when this library was loaded, or be open for appending only, as a log is.
void ct_print_stderr(const char *line);

// Whether a line can be written to stderr without waiting for a reader, within `ms` milliseconds.
// Also if nothing would be written.
int ct_print_stderr_has_room(int ms);

// Describes an errno of a file in a few words. strerror(3) may allocate, and translates.
const char *ct_print_strerror(int error);

#endif
