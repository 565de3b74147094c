// SPDX-License-Identifier: Apache-2.0
#include "analyze/phase_match.h"

static int is_row(const struct ct_phase_row *r, const struct ct_phase_at *at, int is_idle) {
    return r->is_idle == is_idle && ct_phases_equal(&r->at, at);
}

// There are few phases.
static struct ct_phase_row *get_row(struct ct_phase_match *m, const struct ct_phase_at *at,
                                    int is_idle) {
    for (size_t i = 0; i < m->count; i++)
        if (is_row(&m->list[i], at, is_idle))
            return &m->list[i];
    CT_HEAP_GROW(m->list, m->count, m->room);
    m->list[m->count] = (struct ct_phase_row){.at = *at, .is_idle = is_idle};
    return &m->list[m->count++];
}

static void add_times(struct ct_phase_share *s, const struct ct_phase_time *p) {
    s->stretches += p->stretches;
    s->duration_ns += p->duration_ns;
    s->taken_bytes += p->taken_bytes;
    s->taken_count += p->taken_count;
    s->kept_bytes += p->kept_bytes;
    s->given_back_bytes += p->given_back_bytes;
    s->given_back_count += p->given_back_count;
    s->peak_bytes = p->peak_bytes > s->peak_bytes ? p->peak_bytes : s->peak_bytes;
}

static void add_side(struct ct_phase_match *m, int side, const struct ct_compared_device *d,
                     struct ct_phases *phases) {
    const struct ct_phase_at none = {.phase = CT_PHASE_UNKNOWN};
    for (size_t i = 0; i < d->phases.count; i++) {
        const struct ct_phase_at *at = &d->phases.list[i].at;
        struct ct_phase_share *s = &get_row(m, at, 0)->side[side];
        add_times(s, &d->phases.list[i]);
        s->is_live_unknown = !d->phases.by_frames && at->phase != CT_PHASE_UNKNOWN;
    }
    for (size_t i = 0; i < d->now.holding_count; i++) {
        const struct ct_holding *h = &d->now.holdings[i];
        const int is_idle = h->kind == CT_HOLDING_IDLE;
        const struct ct_phase_at at = is_idle ? none : ct_phases_find(phases, h->stack);
        struct ct_phase_row *r = get_row(m, &at, is_idle);
        r->side[side].bytes += h->bytes;
        r->side[side].count += h->count;
    }
}

void ct_phase_match_build(struct ct_phase_match *m, const struct ct_compared_device d[CT_SIDES],
                          struct ct_phases *phases[CT_SIDES]) {
    *m = (struct ct_phase_match){0};
    for (int side = 0; side < CT_SIDES; side++)
        if (d[side].exists)
            add_side(m, side, &d[side], phases[side]);
}

void ct_phase_match_free(struct ct_phase_match *m) {
    free(m->list);
    *m = (struct ct_phase_match){0};
}
