// SPDX-License-Identifier: Apache-2.0
// Which neighbours in a text belong to one figure: a line must not end between them.
#ifndef CT_JOINED_WORDS_H
#define CT_JOINED_WORDS_H

#include <stddef.h>

// Whether the second word, one space after the first, belongs to it: "8.19" and "MiB", "GPU" and
// "0", "63" and "blocks". Both may have escape sequences around them.
int ct_joined_words(const char *first, size_t first_bytes, const char *second, size_t second_bytes);
// Returns the length of an escape sequence (a colour), 0 if none begins there.
size_t ct_joined_words_escape(const char *at, size_t left);

#endif
