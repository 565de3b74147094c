// SPDX-License-Identifier: Apache-2.0
// The call sites of a device whose memory only grows, over the whole trace up to a moment; those
// whose memory has filled to a bound; growth of PyTorch's pool that its blocks do not need; and
// growth of memory that no allocation explains.
//
// Start-up is left out: where frames name phases, everything up to the end of the last phase of
// loading, warm-up and capture (or, in training, up to the first pass). Elsewhere the shape of the
// growth tells it (growth_shape.h).
#ifndef CT_LEAKS_H
#define CT_LEAKS_H

#include "analyze/untracked_curve.h"
#include "sites/growth_shape.h"
#include "sites/site_growth.h"
#include "symbols/phases.h"

// A growth that takes less time is not told: a minute after a start-up whose end is known, else as
// long as one may last. One that ends in an OOM, with work between its steps, needs no more time
// than these.
#define CT_LEAKS_SHORTEST_NS UINT64_C(60000000000)
#define CT_LEAKS_SHORTEST_WITHOUT_PHASES_NS UINT64_C(600000000000)

struct ct_leaks_request {
    const struct ct_moment *moment;
    uint64_t from_ns; // of the range
    int device;       // an index
    enum ct_holding_rows rows;
    struct ct_phases *phases; // NULL: none are known
    int labels_are_set;       // the caller has refined them (site_groups.h)
};

// How what overwritten events held is known to have been less than what is kept.
enum ct_leak_past {
    CT_LEAK_PAST_EXACT,  // the growth began when every event was known
    CT_LEAK_PAST_COARSE, // by the coarse history of the device
};

struct ct_leak {
    size_t group; // position in `groups`
    struct ct_growth_shape shape;
    enum ct_leak_past past;
    int is_loop;        // in a short time, up to an OOM: told by the sameness of its allocations
    uint64_t median_ns; // when the middle one of what is live was allocated
    uint64_t never_freed_count, never_freed_bytes; // of what was taken in the range
};

// Growth of what PyTorch has reserved, while the most that blocks fill of it does not grow.
struct ct_leaks_pool {
    int is_fragmenting;
    struct ct_growth_shape shape;
    uint64_t reserved, filled;        // at the moment
    uint64_t most_before, most_since; // filled, before and since the growth began
};

// Whether memory grows that no allocation of the process explains: graph executables, modules, what
// libraries keep; or, where NVML does not say what this process holds, memory of other processes.
//
// The least of each part of the time is judged like what a call site keeps (growth_shape.h).

// Less is no growth: the driver takes and gives back some MiB by itself.
#define CT_UNTRACKED_GROWTH_LEAST (UINT64_C(16) << 20)

struct ct_untracked_growth {
    int known;        // the device was read in the time that is judged, at two times or more
    int is_own;       // it is this process's; else it is not known whose
    uint64_t bytes;   // at the last reading
    uint64_t read_ns; // when that was
    struct ct_growth_shape shape;
    // What calls were measured to take since the growth began; not known where that is in
    // overwritten time, or where more was measured than has grown (some of it was given back).
    int measured_known;
    uint64_t measured[CT_MEASURED_PARTS];
};

void ct_untracked_growth_find(struct ct_untracked_growth *g, const struct ct_untracked_curve *c,
                              const struct ct_growth_limits *limits);
// Whether it can have grown by so many bytes, whenever the start-up ended. (Then a pass that finds
// its end is worth its time.)
int ct_untracked_growth_is_possible(const struct ct_untracked_curve *c, uint64_t bytes);

struct ct_leaks {
    struct ct_site_groups groups; // of what is live at the moment, with growth
    enum ct_holding_rows rows;    // of these
    uint64_t live_bytes;          // at the moment
    struct ct_leak *growing;      // the fastest first
    size_t growing_count;
    struct ct_leak *filled; // kinds CT_GROWTH_KIND_SATURATING, the most bytes first
    size_t filled_count;
    // Call sites for which the time is too short, or too much was lost: their shapes are what a
    // verdict can weigh with other evidence (a rate of 0: nothing is known but that they hold).
    struct ct_leak *untold;
    size_t untold_count;
    uint64_t untold_bytes; // that they hold
    struct ct_leaks_pool pool;
    struct ct_untracked_growth untracked;
    uint64_t from_ns, to_ns; // the time that is judged
    int is_start_up_known;   // it begins with the end of the start-up, by phases
    uint64_t shortest_ns;    // that a growth has to take: less, if it
    int ends_in_oom;         // and there was work between its steps
    uint64_t exact_from_ns;  // 0: every event is known
    int free_known;
    uint64_t free_bytes, idle_bytes; // at the moment: of the device, and in PyTorch's pool
    // At the rates of all growing call sites, of a fragmenting pool and of untracked memory
    // together.
    int full_known;
    uint64_t full_in_ns;
};

// In two passes that others share: joins the first one, and when it has run, the second one; `s`
// names the groups. What a request points to is used up to the finish.
struct ct_leaks_finder *ct_leaks_join_first(struct ct_listeners *to, struct ct_leaks *l,
                                            struct ct_trace *t, const struct ct_leaks_request *q);
void ct_leaks_join_second(struct ct_listeners *to, struct ct_leaks_finder *f,
                          struct ct_call_sites *s);
// When the second one has run: judges, and frees the finder.
void ct_leaks_finish(struct ct_leaks_finder *f);
// Does all of it alone.
void ct_leaks_find(struct ct_leaks *l, struct ct_call_sites *s, struct ct_trace *t,
                   const struct ct_leaks_request *request);
// How many rows there are: growing call sites, a fragmenting pool, growing untracked memory.
size_t ct_leaks_count(const struct ct_leaks *l);
// How much all of these grow in an hour, at their rates.
uint64_t ct_leaks_bytes_per_hour(const struct ct_leaks *l);
// Whether no growth was found, and the time is too short to say that there is none.
int ct_leaks_is_too_short(const struct ct_leaks *l);
// When the device is full at the rate of one growth alone: 0 if it is not known.
int ct_leaks_full_in(const struct ct_leaks *l, const struct ct_growth_shape *s, uint64_t *ns);
void ct_leaks_free(struct ct_leaks *l);

#endif
