// SPDX-License-Identifier: Apache-2.0
#include "sites/leaks.h"

enum { PARTS = CT_SITE_HISTORY_PARTS };

#define SHORTEST_NS UINT64_C(60000000000) // no growth of less time is told (leaks.h)

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

// The part of a time that points cover.
static uint64_t measure_cover(const struct ct_untracked_points *p, uint64_t from_ns,
                              uint64_t to_ns) {
    if (!p->count)
        return 0;
    const uint64_t first = later(p->list[0].t_ns, from_ns), last = earlier(p->last_ns, to_ns);
    return last > first ? last - first : 0;
}

// NVML's reports of this process count if they cover at least half of what all readings do.
static const struct ct_untracked_points *choose(const struct ct_untracked_curve *c,
                                                uint64_t from_ns, uint64_t to_ns, int *is_own) {
    const uint64_t own = measure_cover(&c->own, from_ns, to_ns);
    *is_own = own && own >= measure_cover(&c->all, from_ns, to_ns) / 2;
    return *is_own ? &c->own : &c->all;
}

// The last point up to a time, or the first one.
static const struct ct_untracked_point *find_point(const struct ct_untracked_points *p,
                                                   uint64_t t_ns) {
    size_t i = 0;
    while (i + 1 < p->count && p->list[i + 1].t_ns <= t_ns)
        i++;
    return &p->list[i];
}

// The least of each part of the window. What a point says holds until the next one.
static void fill_parts(struct ct_pool_history *h, const struct ct_untracked_points *p,
                       const struct ct_least_stretch *window) {
    const struct ct_untracked_point *at = find_point(p, window->from_ns), *end = p->list + p->count;
    h->reserved.least = h->least_reserved;
    h->reserved.held = h->least_reserved[0] = at->bytes;
    for (at++; at < end && at->t_ns <= window->to_ns; at++)
        ct_least_held_add(&h->reserved, window, at->t_ns, at->bytes - h->reserved.held);
    ct_least_held_advance(&h->reserved, PARTS - 1);
}

static void measure_parts(struct ct_untracked_growth *g, const struct ct_untracked_points *p,
                          uint64_t to_ns) {
    const struct ct_untracked_point *begin = find_point(p, g->shape.since_ns - 1),
                                    *end = find_point(p, to_ns);
    uint64_t left = g->shape.kept_bytes;
    g->measured_known = begin->measured_known && end->measured_known;
    for (unsigned i = 0; i < CT_MEASURED_PARTS && g->measured_known; i++) {
        const uint64_t now = end->measured[i], then = begin->measured[i];
        g->measured[i] = now > then ? now - then : 0;
        g->measured_known = g->measured[i] <= left;
        left -= g->measured_known ? g->measured[i] : 0;
    }
}

void ct_untracked_growth_find(struct ct_untracked_growth *g, const struct ct_untracked_curve *c,
                              const struct ct_growth_limits *limits) {
    struct ct_growth_limits l = *limits;
    struct ct_pool_history history = {0};
    *g = (struct ct_untracked_growth){0};
    const struct ct_untracked_points *p = choose(c, l.from_ns, l.to_ns, &g->is_own);
    if (!p->count)
        return;
    l.from_ns = later(limits->from_ns, p->list[0].t_ns);
    l.to_ns = earlier(limits->to_ns, p->last_ns); // after the last reading nothing is known
    l.exact_from_ns = 0;
    l.is_by_parts = 1;
    g->known = l.to_ns > l.from_ns;
    if (!g->known)
        return;
    const struct ct_least_stretch window = {l.from_ns, l.to_ns, PARTS};
    g->bytes = find_point(p, l.to_ns)->bytes;
    g->read_ns = l.to_ns;
    fill_parts(&history, p, &window);
    ct_growth_shape_find_reserved(&g->shape, &history, &window, &l);
    if (g->shape.kept_bytes < CT_UNTRACKED_GROWTH_LEAST)
        g->shape.kind = CT_GROWTH_KIND_NONE;
    if (ct_growth_kind_is_leak(g->shape.kind))
        measure_parts(g, p, l.to_ns);
}

// The least since a point, up to the last one, less that of the point.
static uint64_t find_rise(const struct ct_untracked_points *p, size_t from) {
    const uint64_t last = p->list[p->count - 1].bytes;
    uint64_t least = last;
    for (size_t i = from; i < p->count; i++)
        least = earlier(least, p->list[i].bytes);
    return last - least;
}

int ct_untracked_growth_is_possible(const struct ct_untracked_curve *c, uint64_t bytes) {
    int is_own;
    const struct ct_untracked_points *p = choose(c, 0, UINT64_MAX, &is_own);
    const uint64_t time = measure_cover(p, 0, UINT64_MAX);
    if (p->count < CT_GROWTH_LEAST_STEPS || time < SHORTEST_NS)
        return 0;
    // A growth goes on in the last quarter of the time; where the start-up took long, all of it is
    // in the second half.
    const uint64_t half = p->list[0].t_ns + time / 2;
    const size_t from = (size_t)(find_point(p, half) - p->list);
    return find_rise(p, from) >= later(bytes / 4, CT_UNTRACKED_GROWTH_LEAST / 4);
}
