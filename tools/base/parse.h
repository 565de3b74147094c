// SPDX-License-Identifier: Apache-2.0
// Sizes and times as people type them.
#ifndef CT_PARSE_H
#define CT_PARSE_H

#include <stdint.h>

enum ct_parse_result { CT_PARSE_OK, CT_PARSE_WRONG, CT_PARSE_NO_UNIT };

// "24GiB", "24Gi" and "24G" are powers of 1024 (as K, M and G are in CUTRACE_MAX_SIZE), "24GB" is a
// power of 1000; "100B". K, M, G, T, P in either case, with or without a decimal point.
struct ct_parsed_size {
    uint64_t bytes;
    int decimal; // the unit was a power of 1000
};

// A number alone is CT_PARSE_NO_UNIT.
enum ct_parse_result ct_parse_size(const char *text, struct ct_parsed_size *size);

enum ct_time_kind {
    CT_TIME_NONE,        // not given
    CT_TIME_ELAPSED,     // since the start of the recording
    CT_TIME_OF_DAY,      // since midnight, UTC
    CT_TIME_UTC,         // since 1970
    CT_TIME_OF_CROSSING, // when memory ran out, or the budget was exceeded
    CT_TIME_OF_PEAK,
    CT_TIME_OF_EVENT, // `ns` is its number
};

struct ct_time {
    enum ct_time_kind kind;
    uint64_t ns;
    int64_t shift_ns; // "oom-60s" is 60 s before it; of moments and events alone
};

// Elapsed: "4.05", "4.05s", "200ms", "90m", "1h30m", "02:05", "1:02:03.5", "3d05:49:47", and all of
// these as they are printed ("+4.050 s", "+3d 05:49:47"). UTC: "16:56:17Z", "2026-11-22T12:52:17Z".
// Or "oom", "peak", or the number of an event: "#1822", "event:1822"; and so long before or after
// one of these: "oom-60s", "#1822+5m". 0, or -1.
int ct_parse_time(const char *text, struct ct_time *time);
// The kind of a time; of one that is shifted from a moment or an event, CT_TIME_ELAPSED.
enum ct_time_kind ct_time_kind_of(const struct ct_time *time);

// The position of a text among "a|b|c", or -1.
int ct_parse_choice(const char *text, const char *choices);

#endif
