// SPDX-License-Identifier: Apache-2.0
// Sizes, times and counts as people read and write them.
#ifndef CT_HUMAN_H
#define CT_HUMAN_H

#include <stdint.h>

enum ct_human_units { CT_UNITS_IEC, CT_UNITS_SI, CT_UNITS_BYTES };

// A short text by value, so that several fit into one printf.
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
// The ending of a noun after a number: "1 block", "2 blocks".
static inline const char *ct_human_plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

// "24GiB", "512M", "1.5g", "1000": powers of 1024, with or without a decimal point. 0, or -1.
int ct_human_parse_bytes(const char *text, uint64_t *bytes);
// "90", "90s", "1.5s", "200ms", "2min", "1h30m": nanoseconds. 0, or -1.
int ct_human_parse_duration(const char *text, uint64_t *ns);

#endif
