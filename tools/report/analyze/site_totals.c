// SPDX-License-Identifier: Apache-2.0
// A stack may hold memory that it allocated before the range, and may have allocated memory that it
// does not hold any more: the rows are those of all three sums.
#include "analyze/site_totals.h"

struct sums {
    struct ct_live_totals peak, end;
};

static void read_sums(struct sums *u, const struct ct_scan *s, int device,
                      enum ct_holding_rows rows) {
    const struct ct_device_scan *d = &s->device[device];
    u->peak = (struct ct_live_totals){.rows = rows};
    (void)ct_peak_totals_get(&d->totals, CT_TOTALS_AT_PEAK, d->peak_event, rows, &u->peak);
    ct_live_at_read(&u->end, &s->end, device, rows);
}

static void free_sums(struct sums *u) {
    ct_live_at_free(&u->peak);
    ct_live_at_free(&u->end);
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
                          (struct ct_holding){(enum ct_holding_kind)kind, (uint32_t)i,
                                              all->list[i].bytes, all->list[i].count});
    }
    const struct ct_live_totals *const moments[] = {&u->peak, &u->end};
    for (unsigned m = 0; m < 2; m++)
        for (size_t i = 0; i < moments[m]->holding_count; i++) {
            const struct ct_holding *h = &moments[m]->holdings[i];
            add_stack(t, &room, &seen, (struct ct_holding){.kind = h->kind, .stack = h->stack});
        }
    ct_map_free(&seen);
}

static void sum_groups(struct ct_site_totals *t, struct ct_call_sites *sites,
                       const struct sums *u) {
    struct ct_site_group *g;
    for (size_t i = 0; i < u->peak.holding_count; i++) {
        const struct ct_holding *h = &u->peak.holdings[i];
        g = ct_site_groups_get(&t->groups, sites, h->kind, h->stack);
        g->bytes += h->bytes;
        g->count += h->count;
    }
    for (size_t i = 0; i < u->end.holding_count; i++) {
        const struct ct_holding *h = &u->end.holdings[i];
        g = ct_site_groups_get(&t->groups, sites, h->kind, h->stack);
        g->more[CT_SITE_END_BYTES] += h->bytes;
        g->more[CT_SITE_END_COUNT] += h->count;
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
                          const struct ct_scan *s, int device, enum ct_holding_rows rows) {
    struct sums u;
    read_sums(&u, s, device, rows);
    if (u.peak.rows != u.end.rows) {
        free_sums(&u);
        read_sums(&u, s, device, CT_ROWS_BY_SEGMENT);
    }
    *t = (struct ct_site_totals){.rows = u.end.rows};
    list_stacks(t, s, &u);
    // Labels that suit the total suit every column.
    ct_site_groups_refine(sites, t->stacks, t->stack_count);
    sum_groups(t, sites, &u);
    free_sums(&u);
}

void ct_site_totals_free(struct ct_site_totals *t) {
    free(t->stacks);
    ct_site_groups_free(&t->groups);
}
