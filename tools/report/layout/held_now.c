// SPDX-License-Identifier: Apache-2.0
#include "layout/held_now.h"

#include <cutrace/format/assert.h>

enum { LARGEST }; // of a group's own sums: the bytes of its largest object

size_t ct_held_now_position(struct ct_held_now *h, enum ct_holding_kind kind, uint32_t stack) {
    uint32_t *known = stack < h->stacks ? &h->position[kind][stack] : NULL;
    if (known && *known)
        return *known - 1;
    const struct ct_site_group *g = ct_site_groups_get(&h->groups, h->sites, kind, stack);
    const size_t at = (size_t)(g - h->groups.list);
    if (known)
        *known = (uint32_t)at + 1;
    return at;
}

static void add(struct ct_held_now *h, enum ct_holding_kind kind, const struct ct_object *o,
                int sign) {
    const uint64_t number = ct_object_allocations(&h->replay->live, o);
    const uint64_t bytes = sign < 0 ? 0 - o->bytes : o->bytes,
                   count = sign < 0 ? 0 - number : number;
    const size_t at = ct_held_now_position(h, kind, o->stack); // (may move the list)
    struct ct_site_group *g = &h->groups.list[at];
    struct ct_held_component *c =
        &h->component[kind][ct_phases_find_component(h->phases, o->stack)];
    g->bytes += bytes;
    g->count += count;
    if (o->bytes > g->more[LARGEST]) {
        g->more[LARGEST] = o->bytes;
        g->stack = o->stack;
    }
    c->bytes += bytes;
    c->count += count;
    c->stack = o->stack;
    h->bytes[kind] += bytes;
}

static int is_wanted(const struct ct_held_now *h, const struct ct_object *o) {
    return ct_device_to_index(o->device) == h->device;
}

static enum ct_holding_kind kind_of(const struct ct_object *o) {
    return o->kind == CT_KIND_HANDLE && o->segment ? CT_HOLDING_SEGMENT : CT_HOLDING_ALLOCATION;
}

static void live_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_held_now *h = user;
    if (is_wanted(h, o))
        add(h, kind_of(o), o, sign);
}

static void owner_changed(void *user, const struct ct_object *o, uint32_t by) {
    struct ct_held_now *h = user;
    struct ct_object before = *o;
    before.stack = by;
    if (!is_wanted(h, o))
        return;
    add(h, kind_of(o), &before, -1);
    add(h, kind_of(o), o, +1);
}

static void block_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_held_now *h = user;
    if (is_wanted(h, o))
        add(h, CT_HOLDING_BLOCK, o, sign);
}

static void segment_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_held_now *h = user;
    if (!is_wanted(h, o) || !ct_object_is_counted(&h->replay->live, o))
        return;
    add(h, CT_HOLDING_SEGMENT, o, sign);
    add(h, CT_HOLDING_ALLOCATION, o, -sign);
}

void ct_held_now_init(struct ct_held_now *h, struct ct_call_sites *sites, struct ct_phases *phases,
                      int device, const struct ct_replay *r) {
    *h = (struct ct_held_now){.replay = r, .device = device, .sites = sites, .phases = phases};
    h->stacks = sites->definitions->stack_count;
    for (unsigned k = 0; k < CT_HOLDING_STACKS; k++)
        h->position[k] = ct_heap_alloc_zeroed(h->stacks, sizeof **h->position);
}

void ct_held_now_follow(struct ct_held_now *h, struct ct_listener *a) {
    a->objects_self = h;
    a->live_changed = live_changed;
    a->owner_changed = owner_changed;
    a->block_changed = block_changed;
    a->segment_changed = segment_changed;
}

enum ct_holding_rows ct_held_now_rows(const struct ct_held_now *h) {
    const struct ct_holding idle = ct_live_at_find_idle(h->replay, h->device);
    return h->bytes[CT_HOLDING_BLOCK] + idle.bytes == h->bytes[CT_HOLDING_SEGMENT]
               ? CT_ROWS_BY_BLOCK
               : CT_ROWS_BY_SEGMENT;
}

// A component's holdings as one, with one of its stacks: the account is a sum by component.
static void read_totals(struct ct_held_now *h, struct ct_live_totals *t) {
    size_t room = 0;
    *t = (struct ct_live_totals){0};
    for (unsigned k = 0; k < CT_HOLDING_STACKS; k++)
        for (unsigned c = 0; c < CT_COMPONENTS; c++) {
            const struct ct_held_component *of = &h->component[k][c];
            if (!of->bytes)
                continue;
            CT_HEAP_GROW(t->holdings, t->holding_count, room);
            t->holdings[t->holding_count++] = (struct ct_holding){.kind = (enum ct_holding_kind)k,
                                                                  .stack = of->stack,
                                                                  .bytes = of->bytes,
                                                                  .count = of->count};
        }
    ct_live_at_arrange(t, ct_live_at_find_idle(h->replay, h->device), CT_ROWS_BY_BLOCK);
    t->split = ct_replay_split(h->replay, h->device);
}

void ct_held_now_account(struct ct_held_now *h, struct ct_account *a, uint64_t *blocks,
                         const struct ct_breakdown *split) {
    struct ct_live_totals totals;
    read_totals(h, &totals);
    if (split)
        totals.split = *split;
    ct_account_make(a, h->phases, &totals);
    for (unsigned c = 0; c < CT_COMPONENTS; c++) {
        const uint64_t in_blocks =
            totals.rows == CT_ROWS_BY_BLOCK ? h->component[CT_HOLDING_BLOCK][c].bytes : 0;
        blocks[c] = in_blocks < a->row[c].bytes ? in_blocks : a->row[c].bytes;
    }
    ct_live_at_free(&totals);
}

void ct_held_now_free(struct ct_held_now *h) {
    ct_site_groups_free(&h->groups);
    for (unsigned k = 0; k < CT_HOLDING_STACKS; k++)
        free(h->position[k]);
}
