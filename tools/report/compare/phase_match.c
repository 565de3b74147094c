// SPDX-License-Identifier: Apache-2.0
#include "compare/phase_match.h"

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

static void add_live(struct ct_phase_share *s, const struct ct_holding *h) {
    s->bytes += h->bytes;
    s->count += h->count;
    s->is_oldest_unknown |= !h->oldest_ns;
    if (h->oldest_ns && (!s->oldest_ns || h->oldest_ns < s->oldest_ns))
        s->oldest_ns = h->oldest_ns;
}

static struct ct_phase_row *row_of(struct ct_phase_match *m, const struct ct_holding *h,
                                   struct ct_phases *phases) {
    const struct ct_phase_at none = {.phase = CT_PHASE_UNKNOWN};
    const int is_idle = h->kind == CT_HOLDING_IDLE;
    const struct ct_phase_at at = is_idle ? none : ct_phases_find(phases, h->stack);
    return get_row(m, &at, is_idle);
}

// ---- growth -------------------------------------------------------------------------------------

// What a side knows of the rate of a phase before its call sites are looked at.
static void begin_rates(struct ct_phase_match *m, int side, const struct ct_compared_device *d) {
    const int is_short = ct_leaks_is_too_short(&d->leaks);
    for (size_t i = 0; i < m->count; i++) {
        struct ct_phase_share *s = &m->list[i].side[side];
        s->is_rate_known = !is_short && !m->list[i].is_idle && !s->is_live_unknown;
    }
}

// The phases of a call site: the position of a row, + 1; SEVERAL.
enum { NONE = 0, SEVERAL = UINT32_MAX };

static void find_phases(struct ct_phase_match *m, const struct ct_compared_device *d,
                        struct ct_phases *phases, const size_t *group_of, uint32_t *row_of_group) {
    for (size_t i = 0; i < d->now.holding_count; i++) {
        const uint32_t row = (uint32_t)(row_of(m, &d->now.holdings[i], phases) - m->list) + 1;
        uint32_t *of = &row_of_group[group_of[i]];
        *of = *of == NONE || *of == row ? row : (uint32_t)SEVERAL;
    }
}

// Adds the rate of each call site to its phase. (Position 0 stands for what is no call site.)
static void add_rates(struct ct_phase_match *m, int side, const struct ct_compared_device *d,
                      struct ct_phases *phases, struct ct_call_sites *sites) {
    const size_t groups = d->leaks.groups.count + 1, n = d->now.holding_count;
    uint32_t *row_of_group = ct_heap_alloc_zeroed(groups, sizeof *row_of_group);
    size_t *group_of = ct_heap_alloc_zeroed(n, sizeof *group_of);
    for (size_t i = 0; i < n; i++)
        group_of[i] = ct_site_groups_find(&d->leaks.groups, sites, d->now.holdings[i].kind,
                                          d->now.holdings[i].stack);
    find_phases(m, d, phases, group_of, row_of_group);
    for (size_t i = 0; i < n; i++) {
        struct ct_phase_share *s = &row_of(m, &d->now.holdings[i], phases)->side[side];
        uint32_t *of = &row_of_group[group_of[i]];
        uint64_t rate = 0;
        if (!group_of[i] || !ct_compared_device_rate(d, group_of[i] - 1, &rate) ||
            (*of == (uint32_t)SEVERAL && rate))
            s->is_rate_known = 0;
        else if (*of != NONE && *of != (uint32_t)SEVERAL)
            s->bytes_per_hour += rate;
        if (*of != (uint32_t)SEVERAL)
            *of = NONE; // its rate is counted once
    }
    free(row_of_group);
    free(group_of);
}

// ---- all ----------------------------------------------------------------------------------------

static void add_side(struct ct_phase_match *m, int side, const struct ct_compared_device *d,
                     struct ct_phases *phases, struct ct_call_sites *sites) {
    for (size_t i = 0; i < d->phases.count; i++) {
        const struct ct_phase_at *at = &d->phases.list[i].at;
        struct ct_phase_share *s = &get_row(m, at, 0)->side[side];
        add_times(s, &d->phases.list[i]);
        s->is_live_unknown = !d->phases.by_frames && at->phase != CT_PHASE_UNKNOWN;
    }
    for (size_t i = 0; i < d->now.holding_count; i++)
        add_live(&row_of(m, &d->now.holdings[i], phases)->side[side], &d->now.holdings[i]);
    begin_rates(m, side, d);
    add_rates(m, side, d, phases, sites);
}

void ct_phase_match_build(struct ct_phase_match *m, const struct ct_compared_device d[CT_SIDES],
                          struct ct_phases *phases[CT_SIDES],
                          struct ct_call_sites *sites[CT_SIDES]) {
    *m = (struct ct_phase_match){.is_comparable = d[0].exists && d[1].exists &&
                                                  d[0].phases.by_frames == d[1].phases.by_frames};
    for (int side = 0; side < CT_SIDES; side++)
        if (d[side].exists)
            add_side(m, side, &d[side], phases[side], sites[side]);
}

static int has_phase(const struct ct_phase_share *s) {
    return s->stretches || s->bytes;
}

enum ct_phase_state ct_phase_match_state(const struct ct_phase_match *m,
                                         const struct ct_phase_row *r) {
    if (!m->is_comparable || r->is_idle || r->at.phase == CT_PHASE_UNKNOWN)
        return CT_PHASE_STATE_UNKNOWN;
    if (has_phase(&r->side[0]) && has_phase(&r->side[1]))
        return CT_PHASE_OF_BOTH;
    return has_phase(&r->side[1]) ? CT_PHASE_IS_NEW : CT_PHASE_IS_GONE;
}

void ct_phase_match_free(struct ct_phase_match *m) {
    free(m->list);
    *m = (struct ct_phase_match){0};
}
