// SPDX-License-Identifier: Apache-2.0
#include "sites/site_history.h"

#include "base/heap.h"

enum { PARTS = CT_SITE_HISTORY_PARTS };

// ---- the least that is held ---------------------------------------------------------------------

unsigned ct_least_stretch_part(const struct ct_least_stretch *s, uint64_t t_ns) {
    if (t_ns <= s->from_ns || s->to_ns <= s->from_ns)
        return 0;
    const uint64_t span = s->to_ns - s->from_ns;
    const unsigned __int128 part = (unsigned __int128)(t_ns - s->from_ns) * s->parts / span;
    return part < s->parts ? (unsigned)part : s->parts - 1;
}

uint64_t ct_least_stretch_begin(const struct ct_least_stretch *s, unsigned part) {
    const unsigned __int128 span = s->to_ns - s->from_ns;
    // Rounded up: the first time that ct_least_stretch_part puts into the part.
    return s->from_ns + (uint64_t)((span * part + s->parts - 1) / s->parts);
}

void ct_least_held_advance(struct ct_least_held *h, unsigned part) {
    while (h->part < part)
        h->least[++h->part] = h->held;
}

void ct_least_held_add(struct ct_least_held *h, const struct ct_least_stretch *s, uint64_t t_ns,
                       uint64_t bytes) {
    const int before = t_ns < s->from_ns;
    if (!before)
        ct_least_held_advance(h, ct_least_stretch_part(s, t_ns));
    h->held += bytes;
    if (before || h->held < h->least[h->part]) // the first part begins with what is held then
        h->least[h->part] = h->held;
}

void ct_least_held_restart(struct ct_least_held *h, unsigned part) {
    h->part = part;
    h->least[part] = h->held;
}

// ---- the window ---------------------------------------------------------------------------------

void ct_site_histories_init(struct ct_site_histories *h, uint64_t from_ns, uint64_t to_ns) {
    *h = (struct ct_site_histories){.window = {from_ns, to_ns, PARTS}};
    h->pool.reserved.least = h->pool.least_reserved;
}

void ct_site_histories_begin(struct ct_site_histories *h, size_t count) {
    h->count = count;
    h->list = ct_heap_alloc_zeroed(count, sizeof *h->list);
    for (size_t i = 0; i < count; i++)
        h->list[i].held.least = h->list[i].least;
}

void ct_site_histories_hold(struct ct_site_histories *h, size_t group, uint64_t t_ns,
                            uint64_t bytes) {
    ct_least_held_add(&h->list[group].held, &h->window, t_ns, bytes);
}

// ---- lifetimes ----------------------------------------------------------------------------------

// The number of the octave and, in it, of the quarter. Shorter ones than 4 ns do not matter.
static unsigned find_lifetime(uint64_t ns) {
    if (ns < 4)
        return 0;
    const unsigned octave = 63 - (unsigned)__builtin_clzll(ns);
    return 4 * octave + (unsigned)(ns >> (octave - 2) & 3);
}

static uint64_t end_of_lifetime(unsigned i) {
    const unsigned octave = i / 4;
    if (octave < 2)
        return 4;
    const uint64_t quarter = UINT64_C(1) << (octave - 2), begin = (4 + i % 4) * quarter;
    return begin > UINT64_MAX - quarter ? UINT64_MAX : begin + quarter;
}

void ct_site_histories_give_back(struct ct_site_histories *h, size_t group, uint64_t born_ns,
                                 uint64_t t_ns, int sign) {
    struct ct_site_history *s = &h->list[group];
    if (!born_ns || born_ns < h->window.from_ns || t_ns < born_ns)
        return;
    if (!s->lifetimes)
        s->lifetimes = ct_heap_alloc_zeroed(CT_SITE_LIFETIMES, sizeof *s->lifetimes);
    s->lifetimes[find_lifetime(t_ns - born_ns)] += (uint64_t)(int64_t)sign;
    s->given_back += (uint64_t)(int64_t)sign;
}

uint64_t ct_site_history_lifetime(const struct ct_site_history *h, uint64_t left_out) {
    uint64_t longer = 0;
    for (unsigned i = CT_SITE_LIFETIMES; h->lifetimes && i-- > 0;) {
        longer += h->lifetimes[i];
        if (longer > left_out)
            return end_of_lifetime(i);
    }
    return 0;
}

// ---- PyTorch's pool -----------------------------------------------------------------------------

static void note_filled(struct ct_site_histories *h, unsigned from, unsigned to, uint64_t filled) {
    struct ct_pool_history *p = &h->pool;
    for (unsigned i = from + 1; i <= to; i++)
        p->most_filled[i] = p->filled;
    if (filled > p->most_filled[to])
        p->most_filled[to] = filled;
    p->filled = filled;
}

void ct_site_histories_note_pool(struct ct_site_histories *h, uint64_t t_ns, uint64_t reserved,
                                 uint64_t filled) {
    struct ct_pool_history *p = &h->pool;
    if (!reserved && !p->seen)
        return;
    p->seen = 1;
    const unsigned before = p->reserved.part;
    ct_least_held_add(&p->reserved, &h->window, t_ns, reserved - p->reserved.held);
    if (t_ns < h->window.from_ns)
        p->most_filled[0] = p->filled = filled; // the first part begins with what is filled then
    else
        note_filled(h, before, p->reserved.part, filled);
}

// ---- a gap --------------------------------------------------------------------------------------

void ct_site_histories_restart(struct ct_site_histories *h, uint64_t t_ns) {
    const unsigned part = ct_least_stretch_part(&h->window, t_ns);
    h->exact_from_ns = t_ns;
    h->lost = 0;
    for (size_t i = 0; i < h->count; i++)
        ct_least_held_restart(&h->list[i].held, part);
    ct_least_held_restart(&h->pool.reserved, part);
    h->pool.most_filled[part] = h->pool.filled;
}

// ---- the end ------------------------------------------------------------------------------------

void ct_site_histories_add_live(struct ct_site_histories *h, size_t group,
                                const struct ct_site_birth *b) {
    struct ct_site_history *s = &h->list[group];
    CT_HEAP_GROW(s->births, s->birth_count, s->birth_room);
    s->births[s->birth_count++] = *b;
}

static int compare_births(const void *a, const void *b) {
    const struct ct_site_birth *x = a, *y = b;
    if (x->t_ns != y->t_ns)
        return x->t_ns < y->t_ns ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

void ct_site_histories_end(struct ct_site_histories *h) {
    for (size_t i = 0; i < h->count; i++) {
        struct ct_site_history *s = &h->list[i];
        ct_least_held_advance(&s->held, PARTS - 1);
        if (s->birth_count)
            qsort(s->births, s->birth_count, sizeof *s->births, compare_births);
    }
    note_filled(h, h->pool.reserved.part, PARTS - 1, h->pool.filled);
    ct_least_held_advance(&h->pool.reserved, PARTS - 1);
}

void ct_site_histories_free(struct ct_site_histories *h) {
    for (size_t i = 0; i < h->count; i++) {
        free(h->list[i].births);
        free(h->list[i].lifetimes);
    }
    free(h->list);
    *h = (struct ct_site_histories){0};
}
