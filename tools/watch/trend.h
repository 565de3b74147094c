// SPDX-License-Identifier: Apache-2.0
// The linear trend of a size over time, with its uncertainty. A trend is only told where it is
// significant and goes on through the whole time; a step, a cache that fills or a see-saw is none.
#ifndef CT_WATCH_TREND_H
#define CT_WATCH_TREND_H

#include <stddef.h>
#include <stdint.h>

#define CT_TREND_LEAST_NS UINT64_C(60000000000) // a trend of less time is not told
enum { CT_TREND_LEAST_POINTS = 12 };

struct ct_trend_point {
    uint64_t t_ns, bytes;
};

enum ct_trend_kind {
    CT_TREND_UNKNOWN,   // nothing was read
    CT_TREND_TOO_SHORT, // recorded for too short a time
    CT_TREND_STARTING,  // the program is still starting up
    CT_TREND_UNCLEAR,   // it changes, but no straight line says how
    CT_TREND_STEADY,    // it does not change, or by less than the uncertainty matters
    CT_TREND_RISING,
    CT_TREND_FALLING,
    CT_TREND_KINDS,
};

struct ct_trend {
    enum ct_trend_kind kind;
    // Bytes a second, and half the width of the interval that has the slope with 95 %: of RISING,
    // FALLING and STEADY.
    double slope, error;
    uint64_t span_ns; // the time that was looked at
};

// Finds the trend of points in the order of time, at equal distances. `scale`: the size of the
// whole, of which less than a hundredth in an hour is no change.
void ct_trend_find(struct ct_trend *t, const struct ct_trend_point *points, size_t n,
                   uint64_t scale);

// How long `free` bytes last by a rising trend: by the slope, and by both ends of its interval.
struct ct_trend_full {
    uint64_t ns, earliest_ns, latest_ns;
};
// Returns 0 if it does not rise, or not for certain.
int ct_trend_time_to_full(const struct ct_trend *t, uint64_t free, struct ct_trend_full *full);
// Whether slope and error are known.
int ct_trend_is_known(const struct ct_trend *t);
const char *ct_trend_kind_name(enum ct_trend_kind kind); // for JSON
// Bytes a minute, rounded.
int64_t ct_trend_per_minute(double bytes_per_second);

#endif
