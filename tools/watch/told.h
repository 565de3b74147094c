// SPDX-License-Identifier: Apache-2.0
// Lines about what was done, and what was not and why: each reason once, however often it is found.
#ifndef CT_WATCH_TOLD_H
#define CT_WATCH_TOLD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CT_TOLD_MOST = 1024 };

struct ct_told {
    FILE *out;
    uint64_t once[CT_TOLD_MOST]; // hashes of the last lines that are told once
    size_t count;
};

// Prints a line, without control characters that a name may have.
void ct_told_print(struct ct_told *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// The same, unless that line was printed before.
void ct_told_print_once(struct ct_told *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
