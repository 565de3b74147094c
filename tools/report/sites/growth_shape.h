// SPDX-License-Identifier: Apache-2.0
// Whether what a call site holds grows, and how: from when its live memory was allocated, how long
// it held what it gave back, and the least that it held.
//
// What is kept is what is older than anything that the site gave back ever became. Memory in use
// (activations, sessions of hours) is younger, and so is a cache that throws out what it has taken.
// A growth is a leak only if it goes on: evenly or in steps, up to the moment. What is kept all at
// once is start-up, and what is kept more and more slowly, or no more, a cache that fills.
#ifndef CT_GROWTH_SHAPE_H
#define CT_GROWTH_SHAPE_H

#include "sites/site_history.h"

enum ct_growth_kind {
    CT_GROWTH_KIND_NONE,       // holds no more than before
    CT_GROWTH_KIND_STEADY,     // grows evenly, up to the moment
    CT_GROWTH_KIND_STEPWISE,   // in steps of several allocations
    CT_GROWTH_KIND_SATURATING, // has grown, and stopped or slows down: a cache that fills
    CT_GROWTH_KIND_UNTOLD,     // the window is too short, or lost events could be all of it
    CT_GROWTH_KINDS,
};

enum {
    CT_GROWTH_LEAST_STEPS = 5, // fewer are no rule
    // PyTorch takes at least 2 MiB from the driver: less may fit into what it has.
    CT_GROWTH_LEAST_BYTES = 2 << 20,
};

// What is known of a growth beside its history.
struct ct_growth_limits {
    uint64_t from_ns, to_ns; // in the window of the histories: the time that is judged
    uint64_t least_ns;       // a growth in less time is not told
    uint64_t exact_from_ns;  // from here on what was held is known; 0: all of it
    uint64_t lost;           // events that were lost: each may be a free
    // What is judged has one value for each part of the time: growth is steady if most parts have
    // some of it.
    int is_by_parts;
};

struct ct_growth_shape {
    enum ct_growth_kind kind;
    uint64_t since_ns;  // when the first was allocated that was kept
    uint64_t filled_ns; // of a saturating growth: when it held nineteen twentieths of it
    int is_slowing;     // it is not filled yet
    // The growth began before what was held is known: then the rise of the least is not judged.
    int is_older_than_known;
    uint64_t kept_bytes, kept_count; // in the growth
    // The rate is grown_bytes in grown_ns: between the first and the last step.
    uint64_t grown_bytes, grown_ns;
    unsigned steps; // parts of the time in which something was kept; of a stepwise growth, runs
    uint64_t lifetime_ns; // of what it gave back; 0: it gave back nothing
    // 0 to 1, the product of: by the rule of succession, that a growth seen in `steps` steps goes
    // on
    // ((steps + 1) / (steps + 2)); how even it is (1 less the largest distance from an even
    // growth); how much of what is kept the least held has risen by; how much of it lost frees
    // could not be; and how long the growth is compared with the lifetimes (t / (t + lifetime)).
    double confidence;
};

// `window`: of the history.
void ct_growth_shape_find(struct ct_growth_shape *s, const struct ct_site_history *h,
                          const struct ct_least_stretch *window,
                          const struct ct_growth_limits *limits);
// The shape of reserved memory, whose parts were kept from when the least began to hold them.
void ct_growth_shape_find_reserved(struct ct_growth_shape *s, const struct ct_pool_history *p,
                                   const struct ct_least_stretch *window,
                                   const struct ct_growth_limits *limits);
// Bytes in a time at the rate, rounded half away from zero; 0 if there is none.
uint64_t ct_growth_shape_in(const struct ct_growth_shape *s, uint64_t ns);
int ct_growth_kind_is_leak(enum ct_growth_kind kind);
const char *ct_growth_kind_name(enum ct_growth_kind kind); // for JSON: "steady"

#endif
