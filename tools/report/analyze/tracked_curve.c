// SPDX-License-Identifier: Apache-2.0
// A list of points, which is halved when it is full.
#include "analyze/tracked_curve.h"

#include "base/heap.h"
#include "base/search.h"

// NOLINTBEGIN(clang-analyzer-core.NullDereference): there are points where there is a count
static void thin(struct ct_tracked_curve *c) {
    size_t n = 0;
    for (size_t i = 0; i + 1 < c->count; i += 2)
        c->points[n++] = c->points[i + (c->points[i + 1].bytes > c->points[i].bytes)];
    c->count = n;
    c->is_thinned = 1;
}

void ct_tracked_curve_add(struct ct_tracked_curve *c, uint64_t t_ns, uint64_t began_ns,
                          uint64_t bytes) {
    struct ct_tracked_point *last = c->count ? &c->points[c->count - 1] : NULL;
    if (bytes > c->high) {
        c->high = bytes;
        c->high_t_ns = t_ns;
    }
    if (last && last->t_ns >= t_ns) {
        last->bytes = bytes;
        last->began_ns = last->began_ns < began_ns ? last->began_ns : began_ns;
        return;
    }
    if (c->count == CT_TRACKED_CURVE_POINTS)
        thin(c);
    CT_HEAP_GROW(c->points, c->count, c->room);
    c->points[c->count++] = (struct ct_tracked_point){t_ns, bytes, began_ns, began_ns};
}
// NOLINTEND(clang-analyzer-core.NullDereference)

void ct_tracked_curve_finish(struct ct_tracked_curve *c) {
    uint64_t earliest = UINT64_MAX;
    for (size_t i = c->count; i-- > 0;) {
        earliest = c->points[i].began_ns < earliest ? c->points[i].began_ns : earliest;
        c->points[i].earliest_ns = earliest;
    }
}

// Returns the number of points up to a time.
static size_t count_until(const struct ct_tracked_curve *c, uint64_t t_ns) {
    return CT_COUNT_UP_TO(c->points, c->count, t_ns, t_ns);
}

uint64_t ct_tracked_curve_at(const struct ct_tracked_curve *c, uint64_t t_ns) {
    const size_t n = count_until(c, t_ns);
    return n ? c->points[n - 1].bytes : 0;
}

uint64_t ct_tracked_curve_in_flight(const struct ct_tracked_curve *c, uint64_t t_ns) {
    uint64_t bytes = 0, before = ct_tracked_curve_at(c, t_ns);
    for (size_t i = count_until(c, t_ns); i < c->count; i++) {
        const struct ct_tracked_point *p = &c->points[i];
        if (p->earliest_ns >= t_ns)
            break;
        if (p->began_ns < t_ns && p->bytes > before)
            bytes += p->bytes - before;
        before = p->bytes;
    }
    return bytes;
}

uint64_t ct_tracked_curve_freed(const struct ct_tracked_curve *c, uint64_t t_ns,
                                uint64_t before_ns) {
    uint64_t bytes = 0;
    for (size_t i = count_until(c, t_ns); i-- > 0 && t_ns - c->points[i].t_ns <= before_ns;) {
        const uint64_t earlier = i ? c->points[i - 1].bytes : 0;
        bytes += earlier > c->points[i].bytes ? earlier - c->points[i].bytes : 0;
    }
    return bytes;
}

void ct_tracked_curve_free(struct ct_tracked_curve *c) {
    free(c->points);
    *c = (struct ct_tracked_curve){0};
}
