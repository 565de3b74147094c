// SPDX-License-Identifier: Apache-2.0
// Sizes, times and counts as people read them. parse.h reads back what is printed here.
//
// Rounding is half away from zero. A share of more than nothing is never "0.0 %", and one of less
// than all never "100.0 %". A time of day is the second that it lies in, as on a clock.
#ifndef CT_HUMAN_H
#define CT_HUMAN_H

#include <stddef.h>
#include <stdint.h>

enum ct_human_units { CT_UNITS_IEC, CT_UNITS_SI, CT_UNITS_BYTES };

// A short text by value, so that several fit into one printf.
struct ct_human_text {
    char text[40];
};

struct ct_human_text ct_human_bytes(uint64_t bytes, enum ct_human_units units);
struct ct_human_text ct_human_seconds(uint64_t ns);           // "12.4 s", "1:02:03", "3d 05:49:47"
struct ct_human_text ct_human_elapsed(uint64_t ns);           // "+12.400 s", "+1:02:03.400"
struct ct_human_text ct_human_duration(uint64_t ns);          // "12 us"
struct ct_human_text ct_human_time_of_day(uint64_t utc_ns);   // "11:33:41Z"
struct ct_human_text ct_human_date_and_time(uint64_t utc_ns); // "2026-11-20T11:33:41Z"
struct ct_human_text ct_human_count(uint64_t n);              // "48 213"
struct ct_human_text ct_human_percent(uint64_t part, uint64_t whole);
// The ending of a noun after a number: "1 block", "2 blocks".
static inline const char *ct_human_plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

// Texts of the parts of a total that add up to the text of the total, to its last digit.
// `residual`: the part that takes the difference, so that the others are shown as they are
// everywhere else; n: none, then those parts are moved by a digit that are nearest to the middle
// between two (largest remainder). With parts in a smaller unit than the total's, the sum is less
// than a digit away. Parts that do not add up to the total are only rounded.
void ct_human_bytes_of_parts(struct ct_human_text *to, const uint64_t *parts, size_t n,
                             uint64_t total, enum ct_human_units units, size_t residual);
// The same for shares: the texts of parts that add up to `whole` add up to 100.0 %, "<0.1 %" being
// nothing and ">99.9 %" all.
void ct_human_percent_of_parts(struct ct_human_text *to, const uint64_t *parts, size_t n,
                               uint64_t whole, size_t residual);

// A number and its noun: ct_human_counted(2, "free block") is "2 free blocks".
struct ct_human_text ct_human_counted(uint64_t n, const char *noun);
// Formats like printf; what is longer than a text is cut.
struct ct_human_text ct_human_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
