// SPDX-License-Identifier: Apache-2.0
// Sums the live objects of a replay by stack.
#include "analyze/live_at.h"

#include "base/heap.h"
#include "replay/torch_segments.h"

const char *ct_holding_kind_name(enum ct_holding_kind kind) {
    static const char *const names[] = {"allocation", "block", "segment", "idle"};
    return names[kind];
}

static int compare_holdings(const void *a, const void *b) {
    const struct ct_holding *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

struct ct_holding ct_live_at_find_idle(const struct ct_replay *r, int device) {
    struct ct_holding idle = {.kind = CT_HOLDING_IDLE};
    for (int d = device < 0 ? 0 : device; d < (device < 0 ? CT_DEVICES : device + 1); d++)
        for (unsigned c = 0; c < CT_TORCH_POOL_CLASSES; c++) {
            idle.bytes += r->pool.device[d].free[c].bytes;
            idle.count += r->pool.device[d].free[c].count;
        }
    return idle;
}

// Removes the holdings of a kind.
static void drop_kind(struct ct_live_totals *t, enum ct_holding_kind kind) {
    size_t n = 0;
    for (size_t i = 0; i < t->holding_count; i++)
        if (t->holdings[i].kind != kind)
            t->holdings[n++] = t->holdings[i];
    t->holding_count = n;
}

void ct_live_at_arrange(struct ct_live_totals *t, struct ct_holding idle,
                        enum ct_holding_rows rows) {
    uint64_t bytes[CT_HOLDING_STACKS] = {0}, count[CT_HOLDING_STACKS] = {0};
    for (size_t i = 0; i < t->holding_count; i++) {
        bytes[t->holdings[i].kind] += t->holdings[i].bytes;
        count[t->holdings[i].kind] += t->holdings[i].count;
    }
    t->bytes = bytes[CT_HOLDING_ALLOCATION] + bytes[CT_HOLDING_SEGMENT];
    t->count = count[CT_HOLDING_ALLOCATION] + count[CT_HOLDING_SEGMENT];
    // Where a free of a block was lost, blocks overlap and do not add up to their segments.
    if (bytes[CT_HOLDING_BLOCK] + idle.bytes != bytes[CT_HOLDING_SEGMENT])
        rows = CT_ROWS_BY_SEGMENT;
    t->rows = rows;
    drop_kind(t, rows == CT_ROWS_BY_BLOCK ? CT_HOLDING_SEGMENT : CT_HOLDING_BLOCK);
    if (rows == CT_ROWS_BY_BLOCK && idle.bytes) {
        size_t capacity = t->holding_count;
        CT_HEAP_GROW(t->holdings, t->holding_count, capacity);
        t->holdings[t->holding_count++] = idle;
    }
    if (t->holding_count)
        qsort(t->holdings, t->holding_count, sizeof *t->holdings, compare_holdings);
}

int ct_live_at_classify(const struct ct_replay *r, const struct ct_object *o, int device,
                        enum ct_holding_kind *kind) {
    if (device >= 0 && device != ct_device_to_index(o->device))
        return 0;
    if (o->kind == CT_KIND_BLOCK) {
        *kind = CT_HOLDING_BLOCK;
        return r->pool.on && o->segment;
    }
    *kind = ct_torch_pool_is_segment(&r->pool, o) ? CT_HOLDING_SEGMENT : CT_HOLDING_ALLOCATION;
    return ct_object_is_counted(&r->live, o);
}

uint64_t ct_live_at_round(uint64_t bytes) {
    const uint64_t block = UINT64_C(2) << 20;
    return bytes < block ? 0 : (block - bytes % block) % block;
}

uint64_t ct_live_at_rounding(const struct ct_live *l, const struct ct_object *o) {
    const int is_allocated = o->kind == CT_KIND_ADDRESS && ct_object_is_on_device(l, o);
    return is_allocated ? ct_live_at_round(o->bytes) : 0;
}

static void add_object(struct ct_holding *h, const struct ct_live *l, const struct ct_object *o) {
    h->bytes += o->bytes;
    h->count += ct_object_allocations(l, o);
    if (!h->oldest_ns || o->t_ns < h->oldest_ns)
        h->oldest_ns = o->t_ns;
    if (o->resumed)
        h->resumed_bytes += o->bytes;
}

void ct_live_at_find_resumers(struct ct_live_totals *t, const struct ct_resumers *resumers) {
    for (size_t i = 0; i < t->holding_count; i++) {
        struct ct_holding *h = &t->holdings[i];
        if (h->resumed_bytes)
            h->resumed_by = ct_resumers_find(
                resumers, h->kind == CT_HOLDING_BLOCK ? CT_RESUMED_BLOCK : CT_RESUMED_MEMORY,
                h->stack);
    }
}

uint64_t ct_live_at_sum_asleep(const struct ct_replay *r, int device) {
    uint64_t bytes = 0;
    for (int d = device < 0 ? 0 : device; d < (device < 0 ? CT_DEVICES : device + 1); d++)
        bytes += r->pool.device[d].lost.asleep.bytes;
    return bytes;
}

static void sum_holdings(struct ct_live_totals *t, const struct ct_replay *r, int device) {
    struct ct_map position = {0}; // stack and kind -> the holding's position, + 1
    size_t capacity = 0;
    enum ct_holding_kind kind;
    for (uint32_t i = 0; i < ct_live_slot_count(&r->live); i++) {
        const struct ct_object *o = ct_live_object_at(&r->live, i);
        if (!o || !ct_live_at_classify(r, o, device, &kind))
            continue;
        uint64_t *at = ct_map_add(&position, (uint64_t)kind << 32 | o->stack);
        if (!*at) {
            CT_HEAP_GROW(t->holdings, t->holding_count, capacity);
            t->holdings[t->holding_count++] = (struct ct_holding){.kind = kind, .stack = o->stack};
            *at = t->holding_count;
        }
        add_object(&t->holdings[*at - 1], &r->live, o);
        t->rounding_bytes += ct_live_at_rounding(&r->live, o);
    }
    ct_map_free(&position);
}

// By device and pool: the order of the objects depends on how the state came about.
static int compare_pools(const void *a, const void *b) {
    const struct ct_mempool_usage *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->pool < y->pool ? -1 : x->pool > y->pool;
}

struct ct_mempool_usage *ct_live_at_list_mempools(const struct ct_live *l, int device,
                                                  size_t *count) {
    struct ct_mempool_usage *pools = NULL;
    size_t n = 0, capacity = 0;
    struct ct_live_walk w = ct_live_walk_kind(l, CT_KIND_POOL);
    for (const struct ct_object *o; (o = ct_live_walk_next(l, &w));) {
        if (device >= 0 && device != o->device)
            continue;
        CT_HEAP_GROW(pools, n, capacity);
        pools[n++] =
            (struct ct_mempool_usage){o->key, o->device, o->bytes, ct_live_traits(l, o)->link};
    }
    if (n)
        qsort(pools, n, sizeof *pools, compare_pools);
    *count = n;
    return pools;
}

void ct_live_at_read(struct ct_live_totals *t, const struct ct_replay *r, int device,
                     enum ct_holding_rows rows) {
    *t = (struct ct_live_totals){0};
    sum_holdings(t, r, device);
    ct_live_at_arrange(t, ct_live_at_find_idle(r, device), rows);
    t->pools = ct_live_at_list_mempools(&r->live, device, &t->pool_count);
    t->host_bytes = r->live.host_bytes;
    t->asleep_bytes = ct_live_at_sum_asleep(r, device);
    ct_live_at_find_resumers(t, &r->resumers);
    if (device >= 0)
        t->split = ct_replay_split(r, device);
}

void ct_live_at_free(struct ct_live_totals *t) {
    free(t->holdings);
    free(t->pools);
    *t = (struct ct_live_totals){0};
}

// ---- totals at candidate moments ----------------------------------------------------------------

// The first change of a stack after a candidate saves the stack's totals, so capturing a candidate
// copies nothing.

void ct_peak_totals_grow(struct ct_stacks_at_peak *p, uint32_t stack) {
    CT_HEAP_REACH(p->list, p->count, stack);
}

void ct_peak_totals_capture(struct ct_peak_totals *p, enum ct_totals_moment moment,
                            const struct ct_replay *r, int device, uint64_t event) {
    p->candidate[moment].generation++;
    p->candidate[moment].event = event;
    p->candidate[moment].idle = ct_live_at_find_idle(r, device);
    p->candidate[moment].split = ct_replay_split(r, device);
    p->candidate[moment].host_bytes = r->live.host_bytes;
    p->candidate[moment].rounding_bytes = p->rounding_bytes;
    p->candidate[moment].asleep_bytes = ct_live_at_sum_asleep(r, device);
    p->resumers = &r->resumers;
    if (moment == CT_TOTALS_AT_PEAK) // peaks are too frequent to list pools
        return;
    free(p->candidate[moment].pools);
    p->candidate[moment].pools =
        ct_live_at_list_mempools(&r->live, device, &p->candidate[moment].pool_count);
}

struct ct_breakdown ct_peak_totals_split(const struct ct_peak_totals *p,
                                         enum ct_totals_moment moment) {
    return p->candidate[moment].split;
}

static int is_saved(const struct ct_peak_totals *p, enum ct_totals_moment moment,
                    const struct ct_stack_at_peak *s) {
    return s->saved[moment].generation == p->candidate[moment].generation;
}

static struct ct_holding read_holding(const struct ct_peak_totals *p, enum ct_totals_moment moment,
                                      unsigned kind, uint32_t stack) {
    const struct ct_stack_at_peak *s = &p->kind[kind].list[stack];
    struct ct_holding h = {.kind = (enum ct_holding_kind)kind, .stack = stack};
    const int saved = is_saved(p, moment, s);
    h.bytes = saved ? s->saved[moment].bytes : s->bytes;
    h.count = saved ? s->saved[moment].count : s->count;
    if (stack < p->resumed[kind].count) {
        s = &p->resumed[kind].list[stack];
        h.resumed_bytes = is_saved(p, moment, s) ? s->saved[moment].bytes : s->bytes;
    }
    return h;
}

int ct_peak_totals_get(const struct ct_peak_totals *p, enum ct_totals_moment moment, uint64_t event,
                       enum ct_holding_rows rows, struct ct_live_totals *totals) {
    size_t capacity = 0;
    if (!p->candidate[moment].generation || p->candidate[moment].event != event)
        return 0;
    *totals = (struct ct_live_totals){.split = p->candidate[moment].split,
                                      .host_bytes = p->candidate[moment].host_bytes,
                                      .rounding_bytes = p->candidate[moment].rounding_bytes,
                                      .asleep_bytes = p->candidate[moment].asleep_bytes,
                                      .pool_count = p->candidate[moment].pool_count};
    if (totals->pool_count) {
        totals->pools = ct_heap_alloc_zeroed(totals->pool_count, sizeof *totals->pools);
        memcpy(totals->pools, p->candidate[moment].pools,
               totals->pool_count * sizeof *totals->pools);
    }
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++)
        for (size_t i = 0; i < p->kind[kind].count; i++) {
            const struct ct_holding h = read_holding(p, moment, kind, (uint32_t)i);
            if (!h.count)
                continue;
            CT_HEAP_GROW(totals->holdings, totals->holding_count, capacity);
            totals->holdings[totals->holding_count++] = h;
        }
    ct_live_at_arrange(totals, p->candidate[moment].idle, rows);
    ct_live_at_find_resumers(totals, p->resumers);
    return 1;
}

void ct_peak_totals_free(struct ct_peak_totals *p) {
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++) {
        free(p->kind[kind].list);
        free(p->resumed[kind].list);
    }
    for (unsigned i = 0; i < CT_TOTALS_MOMENTS; i++)
        free(p->candidate[i].pools);
    memset(p, 0, sizeof *p);
}

// ---- host memory --------------------------------------------------------------------------------

static int compare_host_memory(const void *a, const void *b) {
    const struct ct_host_memory *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->registered != y->registered)
        return x->registered - y->registered;
    return x->module < y->module ? -1 : x->module > y->module;
}

struct ct_host_memory *ct_host_memory_list(const struct ct_definitions *n, const struct ct_live *l,
                                           size_t *count) {
    struct ct_host_memory *list = NULL;
    size_t used = 0, room = 0, at;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        const int registered = o && o->kind == CT_KIND_REGISTERED;
        if (!o || !(registered || (o->kind == CT_KIND_ADDRESS && ct_object_is_host(l, o))))
            continue;
        const uint32_t module = ct_torch_segments_caller(n, o->stack);
        for (at = 0; at < used && !(list[at].registered == registered && list[at].module == module);
             at++)
            ;
        if (at == used) {
            CT_HEAP_GROW(list, used, room);
            list[used++] = (struct ct_host_memory){.registered = registered, .module = module};
        }
        list[at].ranges++;
        list[at].bytes += o->bytes;
    }
    if (used)
        qsort(list, used, sizeof *list, compare_host_memory);
    *count = used;
    return list;
}
