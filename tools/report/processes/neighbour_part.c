// SPDX-License-Identifier: Apache-2.0
#include "processes/neighbour_part.h"

#include "base/heap.h"

static void lose(struct ct_neighbour_part *p) {
    free(p->list);
    p->list = NULL;
    p->count = p->room = 0;
    p->is_lost = 1;
}

static void keep(struct ct_neighbour_part *p, const struct ct_neighbour_event *x) {
    if (p->is_lost || p->count == CT_NEIGHBOUR_PART_EVENTS) {
        lose(p);
        return;
    }
    CT_HEAP_GROW(p->list, p->count, p->room);
    p->list[p->count++] = *x;
}

// ---- calls --------------------------------------------------------------------------------------

// An answer of NVML's that has begun has `tracked`, which a call compares with its own (note_call,
// neighbours.c). The first call with another value may end the answer: then the call's value takes
// the answer's place. Behind that, the last call with a value that differs from it says when memory
// changed. Whatever `tracked` the answer had, the first one is the first call of all or of the
// second run; the last one is the last call of all or of the last run but one.
static void note_call(struct ct_neighbour_part_device *d, const struct ct_event *e,
                      uint64_t tracked) {
    struct ct_neighbour_calls *c = &d->calls;
    if (!c->runs && d->is_known && tracked == d->tracked)
        return;
    const int is_run = !c->runs || tracked != c->last.tracked;
    if (is_run) {
        c->before = c->last;
        c->runs++;
    }
    c->last.t_ns = e->t_ns;
    c->last.began_ns = e->t_ns - (CT_HAS(e, duration_ns) ? e->duration_ns : 0);
    c->last.tracked = tracked;
    if (is_run && c->runs == 1)
        c->first = c->last;
    else if (is_run && c->runs == 2)
        c->second = c->last;
}

enum { CALLS_TOLD = 4 };

static int is_same(const struct ct_neighbour_call *a, const struct ct_neighbour_event *b) {
    return a->t_ns == b->t_ns && a->began_ns == b->began_ns && a->tracked == b->tracked;
}

// Lists, in their order, the calls that say all. Returns how many there are. (One that is told
// twice changes nothing the second time.)
static size_t list_calls(const struct ct_neighbour_part *p, int device,
                         struct ct_neighbour_event to[CALLS_TOLD]) {
    const struct ct_neighbour_calls *c = &p->device[device].calls;
    const int are_two = c->runs == 2;
    const struct ct_neighbour_call *const all[CALLS_TOLD] = {
        &c->first, are_two ? &c->before : &c->second, are_two ? &c->second : &c->before, &c->last};
    size_t n = 0;
    for (size_t i = 0; i < CALLS_TOLD && c->runs; i++)
        if ((c->runs > 1 || all[i] == &c->first || all[i] == &c->last) &&
            (!n || !is_same(all[i], &to[n - 1])))
            to[n++] = (struct ct_neighbour_event){.t_ns = all[i]->t_ns,
                                                  .began_ns = all[i]->began_ns,
                                                  .tracked = all[i]->tracked,
                                                  .device = device,
                                                  .kind = CT_NEIGHBOUR_CALL};
    return n;
}

// ---- events of NVML's ---------------------------------------------------------------------------

// Of readings with the same `tracked` and nothing between them, the last two say all: each of them
// compares the same figures of the processes, and the last but one is when NVML was asked before.
static void keep_reading(struct ct_neighbour_part *p, struct ct_neighbour_part_device *d,
                         const struct ct_neighbour_event *x) {
    if (d->tracked != x->tracked)
        d->readings = 0;
    d->is_known = 1;
    d->tracked = x->tracked;
    if (d->readings == 2) {
        p->list[d->at[0]].t_ns = p->list[d->at[1]].t_ns;
        p->list[d->at[1]].t_ns = x->t_ns;
        return;
    }
    d->at[d->readings++] = p->count;
    keep(p, x);
}

static void note_nvml(struct ct_neighbour_part *p, const struct ct_neighbour_event *x) {
    struct ct_neighbour_part_device *d = &p->device[x->device];
    struct ct_neighbour_event calls[CALLS_TOLD];
    const size_t n = list_calls(p, x->device, calls);
    for (size_t i = 0; i < n; i++)
        keep(p, &calls[i]);
    d->calls.runs = 0;
    if (n)
        d->readings = 0;
    if (x->kind == CT_NEIGHBOUR_READING) {
        keep_reading(p, d, x);
        return;
    }
    // It belongs to the answer that has begun, or begins another one: that is not known here.
    d->is_known = d->is_known && !n && d->tracked == x->tracked;
    d->readings = 0;
    keep(p, x);
}

// ---- all ----------------------------------------------------------------------------------------

// Behind a gap nothing is known, and with times that go back no reading stands for another. Returns
// whether the part can still be noted later.
static int go_on(struct ct_neighbour_part *p, uint64_t gaps, uint64_t t_ns) {
    if (!p->has_begun) {
        p->has_begun = 1;
        p->gaps = gaps;
        p->first_ns = p->last_ns = t_ns;
    }
    if (gaps != p->gaps || t_ns < p->last_ns)
        lose(p);
    p->last_ns = t_ns;
    return !p->is_lost;
}

void ct_neighbour_part_note_call(struct ct_neighbour_part *p, uint64_t gaps, int device,
                                 const struct ct_event *e, uint64_t tracked) {
    if (go_on(p, gaps, e->t_ns))
        note_call(&p->device[device], e, tracked);
}

void ct_neighbour_part_note_nvml(struct ct_neighbour_part *p, uint64_t gaps,
                                 const struct ct_neighbour_event *x) {
    if (go_on(p, gaps, x->t_ns))
        note_nvml(p, x);
}

void ct_neighbour_part_tell(const struct ct_neighbour_part *p,
                            void (*tell)(void *user, const struct ct_neighbour_event *x),
                            void *user) {
    for (size_t i = 0; i < p->count; i++)
        tell(user, &p->list[i]);
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_neighbour_event calls[CALLS_TOLD];
        const size_t n = list_calls(p, d, calls);
        for (size_t i = 0; i < n; i++)
            tell(user, &calls[i]);
    }
}

void ct_neighbour_part_free(struct ct_neighbour_part *p) {
    free(p->list);
    *p = (struct ct_neighbour_part){0};
}
