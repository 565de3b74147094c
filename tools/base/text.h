// SPDX-License-Identifier: Apache-2.0
// Text for people: sizes, times, and strings from a trace made harmless for a terminal.
#ifndef CT_TEXT_H
#define CT_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum ct_human_units { CT_UNITS_IEC, CT_UNITS_SI, CT_UNITS_BYTES };

// Short texts by value, so that several fit into one printf.
struct ct_human_text {
    char text[40];
};

struct ct_human_text ct_human_bytes(uint64_t bytes, enum ct_human_units units);
struct ct_human_text ct_human_seconds(uint64_t ns);      // "312.4 s", "1 h 02 min"
struct ct_human_text ct_human_elapsed(uint64_t ns);      // "+312.400 s"
struct ct_human_text ct_human_duration(uint64_t ns);     // "12 us"
struct ct_human_text ct_human_utc(uint64_t realtime_ns); // "2026-11-20 11:33:41 UTC"
struct ct_human_text ct_human_count(uint64_t n);         // "48 213"
struct ct_human_text ct_human_percent(uint64_t part, uint64_t whole);
// What a noun has behind a number: "1 block", "2 blocks".
static inline const char *ct_human_plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

// Copies bytes from a trace into `to` (size bytes, NUL-terminated) as valid UTF-8 without control
// characters, escape sequences or changes of writing direction. Returns the length.
size_t ct_utf8_sanitize(char *to, size_t size, const char *from, size_t length);
void ct_utf8_print_sanitized(FILE *out, const char *from, size_t length);

// Length of the valid UTF-8 sequence at p (1 to 4), 0 if there is none; its code point.
unsigned ct_utf8_decode(const unsigned char *p, size_t left, uint32_t *code);
// Columns on a terminal of cleaned text (wide characters count one).
size_t ct_columns(const char *text);

// "24GiB", "512M", "1.5g", "1000": powers of 1024; with a decimal point too. 0, or -1.
int ct_human_parse_bytes(const char *text, uint64_t *bytes);
// "90", "90s", "1.5s", "200ms", "2min", "1h30m": nanoseconds. 0, or -1.
int ct_human_parse_duration(const char *text, uint64_t *ns);

#endif
