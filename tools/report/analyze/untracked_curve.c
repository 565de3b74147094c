// SPDX-License-Identifier: Apache-2.0
#include "analyze/untracked_curve.h"

#include "base/heap.h"
#include "read/device_kind.h"

// ---- at each reading ----------------------------------------------------------------------------

enum { MOST = CT_UNTRACKED_CURVE_POINTS, FEW = 64 };

// Joins points in pairs; the lower one of a pair stays.
static void thin(struct ct_untracked_points *p) {
    const uint64_t time = p->list[p->count - 1].t_ns - p->list[0].t_ns;
    for (size_t i = 0; i < p->count / 2; i++) {
        const struct ct_untracked_point *a = &p->list[2 * i], *b = a + 1;
        struct ct_untracked_point lower = b->bytes < a->bytes ? *b : *a;
        lower.t_ns = a->t_ns;
        p->list[i] = lower;
    }
    p->count /= 2;
    p->spacing_ns = time / (MOST / 2);
}

static void add(struct ct_untracked_points *p, const struct ct_untracked_point *point) {
    struct ct_untracked_point *last = p->count ? &p->list[p->count - 1] : NULL;
    if (last && point->t_ns < p->last_ns)
        return; // of a chunk that was retained: the coarse history has its time
    p->last_ns = point->t_ns;
    if (last && point->t_ns - last->t_ns < p->spacing_ns) {
        const uint64_t t_ns = last->t_ns;
        if (point->bytes <= last->bytes)
            *last = *point;
        last->t_ns = t_ns;
        return;
    }
    if (!p->list)
        p->list = ct_heap_resize(NULL, p->room = FEW, sizeof *p->list);
    else if (p->count == MOST)
        thin(p);
    else
        CT_HEAP_GROW(p->list, p->count, p->room);
    p->list[p->count++] = *point;
}

static int knows(const struct ct_history_cell *c, unsigned quantity) {
    return c->known >> quantity & 1;
}

// A cell has what was known at its end: the last reading, and what was tracked since.
void ct_untracked_curve_begin(struct ct_untracked_curve *c, const struct ct_trace *t, int device) {
    const struct ct_history *h = t->history;
    if (!h || !t->overwritten_events ||
        ct_device_kind_read(&t->definitions, device).is_shared_with_host)
        return;
    for (uint32_t i = 0; i < h->cells; i++) {
        const struct ct_history_cell *cell = &h->cell[i];
        const struct ct_history_curve *of = cell->curve;
        struct ct_untracked_point p = {.t_ns = h->start_ns + (cell->bucket + 1) * h->width_ns};
        if ((int)cell->device != device)
            continue;
        p.bytes = of[CT_QUANTITY_UNTRACKED].last;
        if (knows(cell, CT_QUANTITY_UNTRACKED))
            add(&c->own, &p);
        p.bytes = of[CT_QUANTITY_USED].last - of[CT_QUANTITY_TRACKED].last;
        if (knows(cell, CT_QUANTITY_USED) && knows(cell, CT_QUANTITY_TRACKED) &&
            of[CT_QUANTITY_USED].last >= of[CT_QUANTITY_TRACKED].last)
            add(&c->all, &p);
    }
}

static uint64_t subtract(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

void ct_untracked_curve_note(struct ct_untracked_curve *c, const struct ct_replay *r, int device,
                             const struct ct_event *e) {
    if (!CT_HAS(e, free_bytes) || !CT_HAS(e, total_bytes) || ct_event_device_index(e) != device)
        return;
    const struct ct_device_usage *d = &r->readings.device[device];
    const struct ct_breakdown s = ct_replay_split(r, device);
    if (!s.used_known || s.reading_t_ns != e->t_ns || s.with_host)
        return; // the reading said nothing certain, or nothing of this process
    struct ct_untracked_point p = {.t_ns = e->t_ns, .measured_known = 1};
    memcpy(p.measured, s.measured, sizeof p.measured);
    p.bytes = subtract(s.unexplained, s.managed);
    add(&c->all, &p);
    p.bytes = subtract(d->process_untracked, s.managed);
    if (d->process_known && d->split_t_ns == e->t_ns)
        add(&c->own, &p);
}

void ct_untracked_curve_free(struct ct_untracked_curve *c) {
    free(c->own.list);
    free(c->all.list);
    *c = (struct ct_untracked_curve){0};
}

// ---- in equal parts of a time -------------------------------------------------------------------

static void note_reading(struct ct_untracked_share *s, const struct ct_replay *r,
                         const struct ct_event *e) {
    if (!CT_HAS(e, free_bytes) || !CT_HAS(e, total_bytes) || e->t_ns < s->from_ns ||
        e->t_ns > s->to_ns)
        return; // (hostile times lie outside)
    const int device = ct_event_device_index(e);
    const struct ct_breakdown at = ct_replay_split(r, device);
    if (!at.used_known || at.reading_t_ns != e->t_ns)
        return; // the reading said nothing certain
    const unsigned __int128 span = (unsigned __int128)(s->to_ns - s->from_ns) + 1;
    const unsigned i =
        (unsigned)((e->t_ns - s->from_ns) * (unsigned __int128)CT_UNTRACKED_SHARE_PARTS / span);
    s->device[device].part[i] = (struct ct_untracked_share_part){1, at};
}

static void note(void *share, const struct ct_replay *r, const struct ct_event *e,
                 uint64_t number) {
    struct ct_untracked_share *s = share;
    (void)number;
    if (ct_event_uses_device(e))
        s->device[ct_event_device_index(e)].seen = 1;
    note_reading(s, r, e);
}

// What a checkpoint restored counts, too.
static void end(void *share, const struct ct_replay *r) {
    struct ct_untracked_share *s = share;
    for (int d = 0; d < CT_DEVICES; d++)
        s->device[d].seen |= r->live.device[d].live_allocations || r->readings.device[d].seen;
}

struct ct_listener ct_untracked_share_listener(struct ct_untracked_share *s,
                                               const struct ct_trace *t) {
    *s = (struct ct_untracked_share){.from_ns = t->t_first_ns, .to_ns = t->t_last_ns};
    return (struct ct_listener){.self = s, .after = note, .end = end};
}
