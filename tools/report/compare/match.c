// SPDX-License-Identifier: Apache-2.0
// First by all that is known of a call site; then a native function that only one library of A and
// only another one of B has is the same function, moved.
#include "compare/match.h"

// ---- call sites ---------------------------------------------------------------------------------

struct building {
    struct ct_site_match *match;
    size_t room;
};

static size_t add_row(struct building *b, enum ct_holding_kind kind, const struct ct_site_key *k) {
    struct ct_site_match *m = b->match;
    CT_HEAP_GROW(m->list, m->count, b->room);
    m->list[m->count] = (struct ct_site_row){
        .kind = kind, .site = {SIZE_MAX, SIZE_MAX}, .functions = k->has_library ? k->functions : 0};
    return m->count++;
}

static void add_group(struct ct_site_row *r, int side, const struct ct_site_group *g, size_t at,
                      const struct ct_site_key *k) {
    if (r->site[side] == SIZE_MAX) {
        r->site[side] = at;
        r->line[side] = k->line;
        r->lines[side] = k->lines;
    }
    r->sites[side]++;
    r->bytes[side] += g->bytes;
    r->count[side] += g->count;
}

static void add_side(struct building *b, struct ct_map *rows, struct ct_site_identity *d, int side,
                     const struct ct_site_groups *groups) {
    struct ct_site_match *m = b->match;
    m->row[side] = ct_heap_alloc_zeroed(groups->count, sizeof *m->row[side]);
    for (size_t i = 0; i < groups->count; i++) {
        const struct ct_site_group *g = &groups->list[i];
        const struct ct_site_key k = ct_site_identity_key(d, side, g->kind, g->stack);
        uint64_t *row = ct_map_add(rows, k.exact);
        if (!*row)
            *row = add_row(b, g->kind, &k) + 1;
        m->row[side][i] = (size_t)*row - 1;
        add_group(&m->list[*row - 1], side, g, i, &k);
    }
}

// ---- functions in other libraries ---------------------------------------------------------------

static int is_only_of(const struct ct_site_row *r, int side) {
    return r->sites[side] && !r->sites[!side];
}

// The rows that only one side has, by function: a row + 1, or SIZE_MAX for several.
static void note_alone(struct ct_map *alone, const struct building *b, int side) {
    for (size_t i = 0; i < b->match->count; i++) {
        const struct ct_site_row *r = &b->match->list[i];
        if (!r->functions || !is_only_of(r, side))
            continue;
        uint64_t *row = ct_map_add(alone, r->functions);
        *row = *row ? SIZE_MAX : i + 1;
    }
}

static void move_side(struct ct_site_row *to, struct ct_site_row *from, int side) {
    to->site[side] = from->site[side];
    to->sites[side] = from->sites[side];
    to->bytes[side] = from->bytes[side];
    to->count[side] = from->count[side];
    to->line[side] = from->line[side];
    to->lines[side] = from->lines[side];
    to->library_differs = 1;
    *from = (struct ct_site_row){.site = {SIZE_MAX, SIZE_MAX}};
}

static void join_libraries(const struct building *b) {
    struct ct_map alone[CT_SIDES] = {{0}, {0}};
    note_alone(&alone[0], b, 0);
    note_alone(&alone[1], b, 1);
    for (size_t i = 0; i < alone[0].capacity; i++) {
        const uint64_t *of_b, of_a = alone[0].used[i] ? alone[0].entries[i].value : SIZE_MAX;
        if (of_a == SIZE_MAX)
            continue;
        of_b = ct_map_find(&alone[1], alone[0].entries[i].key);
        if (of_b && *of_b != SIZE_MAX)
            move_side(&b->match->list[of_a - 1], &b->match->list[*of_b - 1], 1);
    }
    ct_map_free(&alone[0]);
    ct_map_free(&alone[1]);
}

// ---- interface ----------------------------------------------------------------------------------

static uint64_t change_of(const struct ct_site_row *r) {
    return r->bytes[1] > r->bytes[0] ? r->bytes[1] - r->bytes[0] : r->bytes[0] - r->bytes[1];
}

static size_t first_of(const struct ct_site_row *r) {
    return r->site[1] < r->site[0] ? r->site[1] : r->site[0];
}

static int compare_rows(const void *a, const void *b) {
    const struct ct_site_row *x = a, *y = b;
    if (change_of(x) != change_of(y))
        return change_of(x) > change_of(y) ? -1 : 1;
    if (x->bytes[0] + x->bytes[1] != y->bytes[0] + y->bytes[1])
        return x->bytes[0] + x->bytes[1] > y->bytes[0] + y->bytes[1] ? -1 : 1;
    if (first_of(x) != first_of(y))
        return first_of(x) < first_of(y) ? -1 : 1;
    return x->site[0] < y->site[0] ? -1 : x->site[0] > y->site[0];
}

static void sort_rows(struct ct_site_match *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++)
        if (m->list[i].sites[0] || m->list[i].sites[1])
            m->list[n++] = m->list[i];
    m->count = n;
    if (n)
        qsort(m->list, n, sizeof *m->list, compare_rows);
}

// Rows have moved: finds the row of each group anew, which the row's first group leads to.
static void set_rows(struct ct_site_match *m, const struct ct_site_groups *groups[CT_SIDES]) {
    for (int side = 0; side < CT_SIDES; side++) {
        struct ct_map row = {0};
        for (size_t i = 0; i < m->count; i++)
            if (m->list[i].sites[side])
                *ct_map_add(&row, m->row[side][m->list[i].site[side]]) = i;
        for (size_t i = 0; i < groups[side]->count; i++)
            m->row[side][i] = (size_t)*ct_map_find(&row, m->row[side][i]);
        ct_map_free(&row);
    }
}

void ct_site_match_build(struct ct_site_match *m, struct ct_site_identity *d,
                         const struct ct_site_groups *groups[CT_SIDES]) {
    struct building b = {.match = m};
    struct ct_map rows = {0};
    *m = (struct ct_site_match){0};
    add_side(&b, &rows, d, 0, groups[0]);
    add_side(&b, &rows, d, 1, groups[1]);
    join_libraries(&b);
    sort_rows(m);
    set_rows(m, groups);
    ct_map_free(&rows);
}

int ct_site_row_is_merged(const struct ct_site_row *r) {
    return r->sites[0] > 1 || r->sites[1] > 1;
}

int ct_site_row_has_moved(const struct ct_site_row *r) {
    return r->sites[0] && r->sites[1] && (r->lines[0] != r->lines[1] || r->library_differs);
}

void ct_site_match_free(struct ct_site_match *m) {
    free(m->list);
    free(m->row[0]);
    free(m->row[1]);
    *m = (struct ct_site_match){0};
}

// ---- phases -------------------------------------------------------------------------------------

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

static void add_phase_side(struct ct_phase_match *m, int side, const struct ct_compared_device *d,
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
            add_phase_side(m, side, &d[side], phases[side], sites[side]);
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
