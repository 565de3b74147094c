// SPDX-License-Identifier: Apache-2.0
// What is new of a process since it was found: requests that ran out of memory, each counted once,
// when its outcome was known, and growth of a device, once when it begins. Whatever is read again,
// overwritten in the trace or judged otherwise later, counts never go back.
#ifndef CT_WATCH_NEWS_H
#define CT_WATCH_NEWS_H

#include <cutrace/model/live_memory.h>

#include "diagnose/verdicts.h"
#include "watch/model.h"

// Growth that stopped for less time is the same growth.
#define CT_WATCH_GROWTH_APART_NS UINT64_C(600000000000)

struct ct_watch_news {
    uint64_t trace_id; // of which all below is
    uint64_t requests[CT_WATCH_OUTCOMES];
    uint64_t scenarios[CT_SCENARIOS]; // by the verdict when the request was counted
    uint64_t next_event; // incidents from this one on (first_event) are not counted yet
    uint64_t told_event; // ... are not told yet
    uint64_t untold;     // how many those are
    uint64_t grew_ns[CT_MAX_DEVICES + 1]; // when a device was last seen to grow; 0: never
    uint8_t growth[CT_MAX_DEVICES + 1];   // 1: it is new, and not told yet
};

// Counts what details have that is new.
void ct_watch_news_note(struct ct_watch_news *n, const struct ct_watch_details *d, uint64_t now_ns);

#endif
