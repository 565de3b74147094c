// SPDX-License-Identifier: Apache-2.0
// An instant gets the state before the first event after it.
#include "analyze/pool_curve.h"

#include <cutrace/format/assert.h>

#include "base/heap.h"

static uint64_t instant_of(const struct ct_pool_curve *c, unsigned i) {
    const uint64_t span = c->to_ns - c->from_ns;
    return c->from_ns + (uint64_t)((unsigned __int128)span * (i + 1) / c->points);
}

void ct_pool_curve_init(struct ct_pool_curve *c, uint64_t from_ns, uint64_t to_ns,
                        unsigned points) {
    *c = (struct ct_pool_curve){
        .from_ns = from_ns, .to_ns = to_ns > from_ns ? to_ns : from_ns, .points = points};
    c->next_ns = points ? instant_of(c, 0) : UINT64_MAX;
}

static struct ct_pool_curve_point *points_of(struct ct_pool_curve *c, int device) {
    CT_ASSERT(c->passed < c->points);
    if (!c->devices[device]) {
        c->devices[device] = ct_heap_alloc_zeroed(c->points, sizeof **c->devices);
        for (unsigned i = 0; i < c->points; i++)
            c->devices[device][i].t_ns = instant_of(c, i);
    }
    return c->devices[device];
}

static void record_instant(struct ct_pool_curve *c, const struct ct_replay *r, int device) {
    struct ct_pool_curve_point *p = &points_of(c, device)[c->passed];
    p->figures = ct_torch_pool_totals(&r->pool, &r->live, device);
    if (!p->worst.known) {
        p->worst = p->figures;
        p->worst_ns = p->t_ns;
    }
    if (c->passed + 1 == c->points)
        return;
    p[1].worst = p->figures; // the next stretch begins in this state
    p[1].worst_ns = p->t_ns;
    c->request[device].outdated = 1;
}

void ct_pool_curve_advance(struct ct_pool_curve *c, const struct ct_replay *r, uint64_t t_ns) {
    while (c->passed < c->points && t_ns > c->next_ns) {
        for (int d = 0; d < CT_DEVICES; d++)
            if (r->pool.device[d].seen)
                record_instant(c, r, d);
        c->passed++;
        c->next_ns = instant_of(c, c->passed);
    }
}

void ct_pool_curve_skip(struct ct_pool_curve *c, uint64_t t_ns) {
    while (c->passed < c->points && t_ns > c->next_ns) {
        c->passed++;
        c->next_ns = instant_of(c, c->passed);
    }
}

static void note_request(struct ct_pool_curve_request *q, const struct ct_pool_curve_point *p,
                         unsigned point) {
    if (q->outdated) {
        q->worst = p->worst;
        q->worst_ns = p->worst_ns;
    }
    q->outdated = 0;
    q->point = point + 1;
}

void ct_pool_curve_update(struct ct_pool_curve *c, const struct ct_replay *r, int device,
                          uint64_t t_ns, int is_request) {
    if (c->passed >= c->points || t_ns < c->from_ns || !r->pool.device[device].seen)
        return;
    struct ct_pool_curve_point *p = &points_of(c, device)[c->passed];
    if (!p->worst.known ||
        ct_torch_pool_scattered(&r->pool, device) > p->worst.free.bytes - p->worst.free.largest) {
        p->worst = ct_torch_pool_totals(&r->pool, &r->live, device);
        p->worst_ns = t_ns;
        c->request[device].outdated = 1;
    }
    if (is_request)
        note_request(&c->request[device], p, c->passed);
}

void ct_pool_curve_finish(struct ct_pool_curve *c) {
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_pool_curve_request *q = &c->request[d];
        struct ct_pool_curve_point *points = c->devices[d];
        if (points && q->point && q->outdated) {
            points[q->point - 1].worst = q->worst;
            points[q->point - 1].worst_ns = q->worst_ns;
        }
        for (unsigned i = q->point; points && i < c->points; i++)
            points[i].worst.known = 0;
    }
}

void ct_pool_curve_free(struct ct_pool_curve *c) {
    for (int d = 0; d < CT_DEVICES; d++)
        free(c->devices[d]);
    *c = (struct ct_pool_curve){0};
}
