// SPDX-License-Identifier: Apache-2.0
// A stack may hold memory that it allocated before the range, and may have allocated memory that it
// does not hold any more: the rows are those of all sums.
#include "sites/site_totals.h"

enum { PEAK, END, NOW, MOMENTS };

struct sums {
    struct ct_live_totals at[MOMENTS];
};

static void read_peak(struct ct_live_totals *t, const struct ct_scan *s, int device,
                      enum ct_holding_rows rows) {
    const struct ct_device_scan *d = &s->device[device];
    *t = (struct ct_live_totals){.rows = rows};
    (void)ct_peak_totals_get(&d->totals, CT_TOTALS_AT_PEAK, d->peak_event, rows, t);
}

static void read_sums(struct sums *u, const struct ct_scan *s, const struct ct_replay *now,
                      int device, enum ct_holding_rows rows) {
    read_peak(&u->at[PEAK], s, device, rows);
    ct_live_at_read(&u->at[END], &s->end, device, rows);
    if (now)
        ct_live_at_read(&u->at[NOW], now, device, rows);
    else
        read_peak(&u->at[NOW], s, device, rows);
}

static void free_sums(struct sums *u) {
    for (unsigned m = 0; m < MOMENTS; m++)
        ct_live_at_free(&u->at[m]);
}

static int have_same_rows(const struct sums *u) {
    return u->at[PEAK].rows == u->at[END].rows && u->at[NOW].rows == u->at[END].rows;
}

// Adds a stack of a kind to the list, unless it is there.
static void add_stack(struct ct_site_totals *t, size_t *room, struct ct_map *seen,
                      struct ct_holding h) {
    uint64_t *at = ct_map_add(seen, (uint64_t)h.kind << 32 | h.stack);
    if (!*at) {
        CT_HEAP_GROW(t->stacks, t->stack_count, *room);
        t->stacks[t->stack_count++] = h;
        *at = t->stack_count;
    }
}

static void list_stacks(struct ct_site_totals *t, const struct ct_scan *s, const struct sums *u) {
    struct ct_map seen = {0};
    size_t room = 0;
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++) {
        const struct ct_stack_totals *all = &s->totals[kind];
        if (kind == (t->rows == CT_ROWS_BY_BLOCK ? CT_HOLDING_SEGMENT : CT_HOLDING_BLOCK))
            continue;
        for (size_t i = 0; i < all->count; i++)
            if (all->list[i].count)
                add_stack(t, &room, &seen,
                          (struct ct_holding){.kind = (enum ct_holding_kind)kind,
                                              .stack = (uint32_t)i,
                                              .bytes = all->list[i].bytes,
                                              .count = all->list[i].count});
    }
    for (unsigned m = 0; m < MOMENTS; m++)
        for (size_t i = 0; i < u->at[m].holding_count; i++) {
            const struct ct_holding *h = &u->at[m].holdings[i];
            add_stack(t, &room, &seen, (struct ct_holding){.kind = h->kind, .stack = h->stack});
        }
    ct_map_free(&seen);
}

static void add_moment(struct ct_site_group *g, unsigned moment, const struct ct_holding *h) {
    if (moment == NOW) {
        g->bytes += h->bytes;
        g->count += h->count;
        ct_site_groups_add_resumed(g, h);
        return;
    }
    g->more[moment == PEAK ? CT_SITE_PEAK_BYTES : CT_SITE_END_BYTES] += h->bytes;
    g->more[moment == PEAK ? CT_SITE_PEAK_COUNT : CT_SITE_END_COUNT] += h->count;
}

static void sum_groups(struct ct_site_totals *t, struct ct_call_sites *sites,
                       const struct sums *u) {
    struct ct_site_group *g;
    for (unsigned m = MOMENTS; m-- > 0;) // the moment first: a group's stack holds the most then
        for (size_t i = 0; i < u->at[m].holding_count; i++) {
            const struct ct_holding *h = &u->at[m].holdings[i];
            add_moment(ct_site_groups_get(&t->groups, sites, h->kind, h->stack), m, h);
        }
    for (size_t i = 0; i < t->stack_count; i++) {
        const struct ct_holding *h = &t->stacks[i];
        g = ct_site_groups_get(&t->groups, sites, h->kind, h->stack);
        g->stacks += h->kind != CT_HOLDING_IDLE;
        g->more[CT_SITE_TOTAL_BYTES] += h->bytes;
        g->more[CT_SITE_TOTAL_COUNT] += h->count;
    }
    ct_site_groups_sort(&t->groups);
}

void ct_site_totals_build(struct ct_site_totals *t, struct ct_call_sites *sites,
                          const struct ct_scan *s, const struct ct_replay *now, int device,
                          enum ct_holding_rows rows) {
    struct sums u;
    read_sums(&u, s, now, device, rows);
    if (!have_same_rows(&u)) {
        free_sums(&u);
        read_sums(&u, s, now, device, CT_ROWS_BY_SEGMENT);
    }
    *t = (struct ct_site_totals){.rows = u.at[END].rows};
    list_stacks(t, s, &u);
    // Labels that suit the total suit every column.
    ct_site_groups_refine(sites, t->stacks, t->stack_count);
    sum_groups(t, sites, &u);
    t->now = u.at[NOW];
    u.at[NOW] = (struct ct_live_totals){0};
    free_sums(&u);
}

void ct_site_totals_free(struct ct_site_totals *t) {
    free(t->stacks);
    ct_live_at_free(&t->now);
    ct_site_groups_free(&t->groups);
}
