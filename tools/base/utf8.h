// SPDX-License-Identifier: Apache-2.0
// Strings from a trace: any bytes go in, valid UTF-8 that is harmless for a terminal comes out.
#ifndef CT_UTF8_H
#define CT_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// The length (1 to 4) of the valid UTF-8 sequence at p and its code point; 0 if there is none.
unsigned ct_utf8_decode(const unsigned char *p, size_t left, uint32_t *code);
// Copies a string into `to` (size bytes, NUL-terminated) as valid UTF-8 without control characters,
// escape sequences or changes of writing direction. Returns the length. `to` may be `from`.
size_t ct_utf8_sanitize(char *to, size_t size, const char *from, size_t length);
void ct_utf8_print_sanitized(FILE *out, const char *from, size_t length);
// Columns on a terminal of a sanitized text; wide characters count one.
size_t ct_utf8_columns(const char *text);

#endif
