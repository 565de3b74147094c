// SPDX-License-Identifier: Apache-2.0
// Looks at a state of the replay: who holds what, and how the addresses lie.
#include "analyze/live_at.h"

#define BLOCK (UINT64_C(2) << 20)

static int in_totals(const struct ct_live *l, const struct ct_object *o, int device) {
    return ct_object_is_counted(l, o) && (device < 0 || device == ct_device_to_index(o->device));
}

static int by_bytes(const void *a, const void *b) {
    const struct ct_holding *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

void ct_live_at_sort(struct ct_live_totals *m) {
    if (m->holding_count)
        qsort(m->holdings, m->holding_count, sizeof *m->holdings, by_bytes);
}

static void take_holdings(struct ct_live_totals *m, const struct ct_live *l, int device) {
    struct ct_map place = {0}; // stack -> holding + 1
    size_t capacity = 0;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || !in_totals(l, o, device))
            continue;
        uint64_t *at = ct_map_add(&place, o->stack);
        if (!*at) {
            CT_HEAP_GROW(m->holdings, m->holding_count, capacity);
            m->holdings[m->holding_count++] = (struct ct_holding){.stack = o->stack};
            *at = m->holding_count;
        }
        m->holdings[*at - 1].bytes += o->bytes;
        m->holdings[*at - 1].count += ct_object_allocations(l, o);
        m->bytes += o->bytes;
        m->count += ct_object_allocations(l, o);
    }
    ct_live_at_sort(m);
    ct_map_free(&place);
}

struct ct_mempool_usage *ct_live_at_list_mempools(const struct ct_live *l, int device, size_t *count) {
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
        pools[n++] = (struct ct_mempool_usage){o->key, o->device, o->bytes, ct_live_traits(l, o)->link};
    }
    *count = n;
    return pools;
}

// ---- addresses -----------------------------------------------------------------------------------

struct range {
    uint64_t start, bytes;
};

static int by_start(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

// Only what allocation calls returned: mappings of VMM objects can lie anywhere, gaps between them cost nothing.
static size_t take_ranges(const struct ct_live *l, int device, struct range **ranges) {
    size_t n = 0, capacity = 0;
    *ranges = NULL;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || o->kind != CT_KIND_ADDRESS || ct_device_to_index(o->device) != device ||
            !ct_object_is_on_device(l, o) || !o->bytes || o->key > UINT64_MAX - o->bytes)
            continue;
        CT_HEAP_GROW(*ranges, n, capacity);
        (*ranges)[n++] = (struct range){o->key, o->bytes};
    }
    if (n)
        qsort(*ranges, n, sizeof **ranges, by_start);
    return n;
}

// Blocks that small allocations share are counted once.
static void add_small(struct ct_address_layout *f, const struct range *r, uint64_t *next_block) {
    const uint64_t first = r->start / BLOCK, last = (r->start + r->bytes - 1) / BLOCK;
    f->small_bytes += r->bytes;
    for (uint64_t b = first > *next_block ? first : *next_block; b <= last; b++)
        f->small_blocks++;
    if (last + 1 > *next_block)
        *next_block = last + 1;
}

struct ct_address_layout ct_address_layout_measure(const struct ct_replay *r, int device, uint64_t capacity) {
    struct ct_address_layout f = {0};
    struct range *ranges;
    const size_t n = take_ranges(&r->live, device, &ranges);
    const uint64_t far = capacity ? capacity : UINT64_C(1) << 40;
    uint64_t end = 0, next_block = 0;
    for (size_t i = 0; i < n; i++) {
        const struct range *at = &ranges[i];
        f.ranges++;
        f.range_bytes += at->bytes;
        if (i && at->start > end && at->start - end <= far) {
            const uint64_t gap = at->start - end;
            f.gaps++;
            f.gap_bytes += gap;
            f.gap_max = gap > f.gap_max ? gap : f.gap_max;
        }
        if (at->start + at->bytes > end)
            end = at->start + at->bytes;
        if (at->bytes < BLOCK)
            add_small(&f, at, &next_block);
        else
            f.rounding_bytes += (BLOCK - at->bytes % BLOCK) % BLOCK;
    }
    free(ranges);
    return f;
}

// ---- moments -------------------------------------------------------------------------------------

void ct_live_at_read(struct ct_live_totals *m, const struct ct_replay *r, int device, uint64_t capacity) {
    *m = (struct ct_live_totals){0};
    take_holdings(m, &r->live, device);
    m->pools = ct_live_at_list_mempools(&r->live, device, &m->pool_count);
    m->host_bytes = r->live.host_bytes;
    if (device < 0)
        return;
    m->split = ct_replay_split(r, device);
    m->frag = ct_address_layout_measure(r, device, capacity);
}

void ct_live_at_event(struct ct_live_totals *m, struct ct_trace *t, uint64_t event, int before, int device,
                  uint64_t capacity) {
    struct ct_replay replay;
    const struct ct_event *e;
    uint64_t number;
    ct_replay_init(&replay, NULL, NULL);
    ct_trace_rewind(t);
    while ((e = ct_replay_next(&replay, t, &number))) {
        if (before && number >= event)
            break;
        ct_replay_apply(&replay, e, number);
        if (number >= event)
            break;
    }
    ct_live_at_read(m, &replay, device, capacity);
    ct_replay_free(&replay);
}

void ct_live_at_free(struct ct_live_totals *m) {
    free(m->holdings);
    free(m->pools);
    *m = (struct ct_live_totals){0};
}
