// SPDX-License-Identifier: Apache-2.0
// Sums the live objects of a replay by stack.
#include "analyze/live_at.h"

static int counts_for(const struct ct_live *l, const struct ct_object *o, int device) {
    return ct_object_is_counted(l, o) && (device < 0 || device == ct_device_to_index(o->device));
}

static int compare_holdings(const void *a, const void *b) {
    const struct ct_holding *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

void ct_live_at_sort(struct ct_live_totals *t) {
    if (t->holding_count)
        qsort(t->holdings, t->holding_count, sizeof *t->holdings, compare_holdings);
}

static void sum_holdings(struct ct_live_totals *t, const struct ct_live *l, int device) {
    struct ct_map position = {0}; // stack -> its holding's position, + 1
    size_t capacity = 0;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || !counts_for(l, o, device))
            continue;
        uint64_t *at = ct_map_add(&position, o->stack);
        if (!*at) {
            CT_HEAP_GROW(t->holdings, t->holding_count, capacity);
            t->holdings[t->holding_count++] = (struct ct_holding){.stack = o->stack};
            *at = t->holding_count;
        }
        t->holdings[*at - 1].bytes += o->bytes;
        t->holdings[*at - 1].count += ct_object_allocations(l, o);
        t->bytes += o->bytes;
        t->count += ct_object_allocations(l, o);
    }
    ct_live_at_sort(t);
    ct_map_free(&position);
}

struct ct_mempool_usage *ct_live_at_list_mempools(const struct ct_live *l, int device,
                                                  size_t *count) {
    struct ct_mempool_usage *pools = NULL;
    size_t n = 0, capacity = 0;
    uint32_t left = l->of_kind[CT_KIND_POOL];
    for (uint32_t i = 0; left && i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || o->kind != CT_KIND_POOL)
            continue;
        left--;
        if (device >= 0 && device != o->device)
            continue;
        CT_HEAP_GROW(pools, n, capacity);
        pools[n++] =
            (struct ct_mempool_usage){o->key, o->device, o->bytes, ct_live_traits(l, o)->link};
    }
    *count = n;
    return pools;
}

void ct_live_at_read(struct ct_live_totals *t, const struct ct_replay *r, int device) {
    *t = (struct ct_live_totals){0};
    sum_holdings(t, &r->live, device);
    t->pools = ct_live_at_list_mempools(&r->live, device, &t->pool_count);
    t->host_bytes = r->live.host_bytes;
    if (device >= 0)
        t->split = ct_replay_split(r, device);
}

void ct_live_at_before(struct ct_live_totals *t, struct ct_trace *trace, uint64_t event,
                       int device) {
    struct ct_replay replay;
    const struct ct_event *e;
    uint64_t number;
    ct_replay_init(&replay, NULL, NULL);
    ct_trace_rewind(trace);
    while ((e = ct_replay_next(&replay, trace, &number)) && number < event)
        ct_replay_apply(&replay, e, number);
    ct_live_at_read(t, &replay, device);
    ct_replay_free(&replay);
}

void ct_live_at_free(struct ct_live_totals *t) {
    free(t->holdings);
    free(t->pools);
    *t = (struct ct_live_totals){0};
}
