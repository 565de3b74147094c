// SPDX-License-Identifier: Apache-2.0
// Sizes at equal distances over the last minutes before a moment, collected while a trace is
// replayed: what the process has allocated on a device, and what is used of it by all.
#ifndef CT_WATCH_SERIES_H
#define CT_WATCH_SERIES_H

#include "replay/replay.h"
#include "watch/trend.h"

enum { CT_SERIES_STEP_S = 5, CT_SERIES_POINTS = 121 }; // ten minutes

struct ct_series_of_device {
    struct ct_trend_point own[CT_SERIES_POINTS], whole[CT_SERIES_POINTS];
    size_t own_count, whole_count;
    uint64_t own_level, whole_level; // after the last event
    int whole_known;
};

struct ct_series {
    uint64_t end_ns;  // the moment; set by the caller
    uint64_t next_ns; // the next point, 0: there was no event
    uint64_t gaps;
    int devices; // so many can have changed
    struct ct_series_of_device device[CT_MAX_DEVICES];
};

// Notes an event that was applied.
void ct_series_note(struct ct_series *s, const struct ct_replay *r, const struct ct_event *e);
// Adds the points up to the moment.
void ct_series_finish(struct ct_series *s);

#endif
