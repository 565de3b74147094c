// SPDX-License-Identifier: Apache-2.0
// Reads a log or an error message, of any length, in bounded memory.
#ifndef CT_READ_TEXT_H
#define CT_READ_TEXT_H

#include <stdio.h>

#include "text/facts.h"

// Reads a stream to its end. Returns 0, or -1 if it cannot be read.
int ct_read_text(FILE *in, struct ct_text_facts *f);
// The same of a stream whose first `n` bytes were read already; at most CT_READ_TEXT_AHEAD.
enum { CT_READ_TEXT_AHEAD = 4096 };
int ct_read_text_rest(const char *ahead, size_t n, FILE *in, struct ct_text_facts *f);
void ct_read_text_bytes(const char *text, size_t length, struct ct_text_facts *f);

#endif
