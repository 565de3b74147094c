// SPDX-License-Identifier: Apache-2.0
// A checkpoint has the last reading of a device, but not those before it, nor what was measured or
// which calls were under way. The events between it and the seam have brought most of that back;
// the rest matters only to calls that began before the checkpoint.
#include "replay/seam.h"

#include <string.h>

#include "replay/parts.h"

struct ct_small_state ct_small_state_copy(const struct ct_replay *r) {
    struct ct_small_state s = {.resets = r->resets,
                               .gaps = r->gaps,
                               .is_known = r->is_known,
                               .readings = r->readings,
                               .open = r->live.open};
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_torch_pool_device *of = &r->pool.device[d];
        s.pool[d].seen = of->seen;
        s.pool[d].unreconciled = of->unreconciled;
        s.pool[d].own_reported = of->own_reported;
    }
    return s;
}

void ct_seam_take(struct ct_seam *s, const struct ct_replay *r, uint64_t warm_ns, uint64_t t_ns) {
    *s = (struct ct_seam){.warm_ns = warm_ns,
                          .t_ns = t_ns,
                          .state = ct_small_state_copy(r),
                          .pool_is_on = r->pool.on};
}

// ---- readings -----------------------------------------------------------------------------------

static int is_same_tick(uint64_t a_ns, uint64_t b_ns) {
    return a_ns / CT_PART_TICK_NS == b_ns / CT_PART_TICK_NS;
}

static int fits_reading(const struct ct_reading *a, const struct ct_reading *b) {
    if (!a->known || !b->known)
        return a->known == b->known;
    return a->free == b->free && a->total == b->total && a->used == b->used &&
           a->tracked == b->tracked && a->in_flight == b->in_flight && a->expected == b->expected &&
           a->corrected == b->corrected && is_same_tick(a->t_ns, b->t_ns);
}

static const struct ct_earlier_reading *get_earlier(const struct ct_device_usage *d, uint64_t i) {
    return i < d->readings && i < CT_EARLIER_READINGS
               ? &d->earlier[(d->readings - 1 - i) % CT_EARLIER_READINGS]
               : NULL;
}

// A call that begins after the checkpoint asks for readings back to the last one before its begin.
static int fits_earlier(const struct ct_device_usage *a, const struct ct_device_usage *b,
                        uint64_t warm_ns) {
    if (!a->last.known || a->last.t_ns <= warm_ns)
        return a->last.known || (!a->readings && !b->readings);
    for (uint64_t i = 0; i < CT_EARLIER_READINGS; i++) {
        const struct ct_earlier_reading *x = get_earlier(a, i), *y = get_earlier(b, i);
        if (!x || !y || x->unexplained != y->unexplained ||
            x->process_untracked != y->process_untracked || x->process_known != y->process_known ||
            !is_same_tick(x->t_ns, y->t_ns))
            return 0;
        if (x->t_ns <= warm_ns)
            return 1;
    }
    return 1; // all that are kept are newer
}

static int fits_measured(const struct ct_measured *a, const struct ct_measured *b,
                         uint64_t warm_ns) {
    const uint64_t a_ns = a->call_ns > warm_ns ? a->call_ns : warm_ns,
                   b_ns = b->call_ns > warm_ns ? b->call_ns : warm_ns;
    return !memcmp(a->bytes, b->bytes, sizeof a->bytes) &&
           !memcmp(a->known, b->known, sizeof a->known) && a->instantiations == b->instantiations &&
           a->unmeasured_instantiations == b->unmeasured_instantiations && a_ns == b_ns;
}

static int fits_device(const struct ct_device_usage *a, const struct ct_device_usage *b,
                       uint64_t warm_ns) {
    return a->seen == b->seen && a->total == b->total && a->tracked == b->tracked &&
           a->free_known == b->free_known && a->free_min == b->free_min &&
           is_same_tick(a->free_min_t_ns, b->free_min_t_ns) &&
           a->process_known == b->process_known && a->process_untracked == b->process_untracked &&
           (!a->process_known || a->split_unexplained == b->split_unexplained) &&
           fits_reading(&a->last, &b->last) && fits_earlier(a, b, warm_ns) &&
           fits_measured(&a->measured, &b->measured, warm_ns);
}

// Whether the frees of `a` that may be under way at a later time are those of `b`, too.
static int has_pending_of(const struct ct_readings *a, const struct ct_readings *b, uint64_t t_ns) {
    for (unsigned i = 0; i < CT_PENDING_FREES; i++) {
        const struct ct_pending_free *x = &a->pending_free[i], *y = &b->pending_free[i];
        if (!(a->pending >> i & 1) || t_ns - x->t_ns > CT_READING_FREE_NS)
            continue;
        if (!(b->pending >> i & 1) || x->t_ns != y->t_ns || x->bytes != y->bytes ||
            x->thread != y->thread || x->device != y->device)
            return 0;
    }
    return 1;
}

static int fits_readings(const struct ct_seam *s, const struct ct_readings *before) {
    for (int d = 0; d < CT_DEVICES; d++)
        if (!fits_device(&before->device[d], &s->state.readings.device[d], s->warm_ns))
            return 0;
    return has_pending_of(before, &s->state.readings, s->t_ns) &&
           has_pending_of(&s->state.readings, before, s->t_ns);
}

// ---- the rest -----------------------------------------------------------------------------------

static int fits_ranges(const struct ct_open_ranges *a, const struct ct_open_ranges *b) {
    if (a->used != b->used || a->forgotten != b->forgotten)
        return 0;
    for (uint32_t i = 0; i < a->used; i++) {
        const struct ct_open_range *x = &a->range[i], *y = &b->range[i];
        if (x->t_ns != y->t_ns || x->event != y->event || x->handle != y->handle ||
            x->op != y->op || x->thread != y->thread || x->api != y->api || x->text != y->text ||
            x->domain != y->domain || x->category != y->category)
            return 0;
    }
    return 1;
}

static int fits_pool(const struct ct_seam *s, const struct ct_torch_pool *before) {
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_torch_pool_device *of = &before->device[d];
        if (s->state.pool[d].seen != of->seen ||
            s->state.pool[d].unreconciled != of->unreconciled ||
            s->state.pool[d].own_reported != of->own_reported)
            return 0;
    }
    return s->pool_is_on == before->on;
}

int ct_seam_fits(const struct ct_seam *s, const struct ct_replay *before) {
    return s->state.is_known == before->is_known && !ct_resumers_are_any(&before->resumers) &&
           fits_ranges(&before->live.open, &s->state.open) && fits_pool(s, &before->pool) &&
           fits_readings(s, &before->readings);
}

uint64_t ct_seam_exact_reading_ns(const struct ct_seam *s, const struct ct_replay *before,
                                  int device, uint64_t t_ns) {
    return t_ns == s->state.readings.device[device].last.t_ns
               ? before->readings.device[device].last.t_ns
               : t_ns;
}

int ct_seam_has_contexts(const struct ct_seam *s, const struct ct_replay *before) {
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->state.readings.device[d].measured.contexts !=
            before->readings.device[d].measured.contexts)
            return 0;
    return 1;
}

static void complete_device(const struct ct_seam *s, const struct ct_replay *before, int device,
                            struct ct_device_usage *d) {
    const struct ct_device_usage *at = &s->state.readings.device[device],
                                 *old = &before->readings.device[device];
    const struct ct_device_usage now = *d;
    memcpy(d->earlier, old->earlier, sizeof d->earlier);
    d->readings = old->readings;
    for (uint64_t i = at->readings; i < now.readings; i++) {
        struct ct_earlier_reading e = now.earlier[i % CT_EARLIER_READINGS];
        e.t_ns = ct_seam_exact_reading_ns(s, before, device, e.t_ns);
        d->earlier[d->readings++ % CT_EARLIER_READINGS] = e;
    }
    d->measured.contexts += old->measured.contexts - at->measured.contexts;
    d->last.t_ns = ct_seam_exact_reading_ns(s, before, device, d->last.t_ns);
    if (d->free_min_t_ns == at->free_min_t_ns)
        d->free_min_t_ns = old->free_min_t_ns;
    if (d->split_t_ns == at->split_t_ns)
        d->split_t_ns = old->split_t_ns;
}

void ct_seam_complete(const struct ct_seam *s, const struct ct_replay *before,
                      struct ct_readings *readings, uint64_t *resets, uint64_t *gaps) {
    *resets += before->resets - s->state.resets;
    *gaps += before->gaps - s->state.gaps;
    for (int d = 0; d < CT_DEVICES; d++)
        complete_device(s, before, d, &readings->device[d]);
}
