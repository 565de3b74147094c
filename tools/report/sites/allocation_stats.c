// SPDX-License-Identifier: Apache-2.0
// Allocations of the driver are followed through the replay, because one object may have several
// frees (references, contexts). A block has one.
#include "sites/allocation_stats.h"

#include <cutrace/model/failures.h>

#include "base/heap.h"
#include "question/pass.h"

struct pass {
    struct ct_allocation_stats *stats;
    const struct ct_stats_request *request;
    const struct ct_replay *replay;
    int in_range;
    uint64_t now;
    size_t latest_call[CT_OPS_END]; // by operation: position in stats->calls, from 1
};

// ---- objects ------------------------------------------------------------------------------------

static void add_bar(struct ct_stats_bar *bar, uint64_t bytes) {
    bar->count++;
    bar->bytes += bytes;
}

static unsigned find_size(uint64_t bytes) {
    return bytes ? 64 - (unsigned)__builtin_clzll(bytes) : 0;
}

// The class of a lifetime: 0 below 1,000 ns, then one for each power of ten. Lifetimes follow each
// other at random, so a loop over the bounds would be mispredicted: the logarithm says all but
// whether the next power is reached.
static unsigned find_lifetime(uint64_t ns) {
    enum { LAST = CT_STATS_LIFETIMES - 1 };
    static const uint64_t bound[LAST] = {1000,         10000,         100000,        1000000,
                                         10000000,     100000000,     1000000000,    10000000000,
                                         100000000000, 1000000000000, 10000000000000};
    const unsigned log2 = 63 - (unsigned)__builtin_clzll(ns | 1), log10 = log2 * 77 / 256;
    if (log10 < 2)
        return 0;
    return log10 - 2 < LAST ? log10 - 2 + (ns >= bound[log10 - 2]) : LAST;
}

static struct ct_size_count *find_size_count(struct ct_object_stats *s, uint64_t bytes) {
    uint64_t *at = ct_map_add(&s->positions, bytes);
    if (!*at) {
        CT_HEAP_GROW(s->by_size, s->size_count, s->size_capacity);
        s->by_size[s->size_count++] = (struct ct_size_count){.size = bytes};
        *at = s->size_count;
    }
    return &s->by_size[*at - 1];
}

static void add_allocated(struct ct_object_stats *s, uint64_t bytes) {
    add_bar(&s->allocated, bytes);
    add_bar(&s->sizes[find_size(bytes)], bytes);
    find_size_count(s, bytes)->count++;
}

static void add_freed(const struct pass *p, struct ct_object_stats *s, const struct ct_object *o) {
    add_bar(&s->freed, o->bytes);
    add_bar(&s->lifetimes[find_lifetime(p->now > o->t_ns ? p->now - o->t_ns : 0)], o->bytes);
}

static int is_wanted(const struct pass *p, int index) {
    return p->request->device < 0 || p->request->device == index;
}

static void live_changed(void *user, const struct ct_object *o, int sign) {
    struct pass *p = user;
    const int index = ct_device_to_index(o->device);
    struct ct_object_stats *s = &p->stats->of[index][CT_STATS_ALLOCATIONS];
    if (!p->in_range || !is_wanted(p, index))
        return;
    if (sign > 0)
        add_allocated(s, o->bytes);
    else
        add_freed(p, s, o);
}

// Counts the block of an event before the event is applied.
static void count_block(struct pass *p, const struct ct_event *e) {
    const int index = ct_event_device_index(e);
    const struct ct_object *o;
    if (CT_HAS(e, result) && e->result)
        return;
    if (e->op == CT_OP_BLOCK_ALLOC && CT_HAS(e, ptr) && e->ptr && is_wanted(p, index))
        add_allocated(&p->stats->of[index][CT_STATS_BLOCKS], CT_GET(e, bytes));
    if (e->op != CT_OP_BLOCK_FREE || !CT_HAS(e, ptr) ||
        !(o = ct_live_find(&p->replay->live, CT_KIND_BLOCK, e->ptr)))
        return;
    if (is_wanted(p, ct_device_to_index(o->device)))
        add_freed(p, &p->stats->of[ct_device_to_index(o->device)][CT_STATS_BLOCKS], o);
}

static void count_live(const struct pass *p) {
    const struct ct_live *l = &p->replay->live;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        const int is_block = o && o->kind == CT_KIND_BLOCK;
        if (!o || !(is_block || ct_object_is_counted(l, o)) ||
            !is_wanted(p, ct_device_to_index(o->device)))
            continue;
        struct ct_object_stats *s =
            &p->stats->of[ct_device_to_index(o->device)]
                         [is_block ? CT_STATS_BLOCKS : CT_STATS_ALLOCATIONS];
        s->live.count += ct_object_allocations(l, o);
        s->live.bytes += o->bytes;
    }
}

// ---- calls --------------------------------------------------------------------------------------

static int is_memory_call(uint32_t op) {
    const unsigned kind = ct_op_makes(op) | ct_op_ends(op); // (no operation does both)
    return kind != CT_KIND_NONE && kind != CT_KIND_BLOCK && kind != CT_KIND_POOL;
}

// Returns the position of the calls in the list, from 1.
static size_t find_call(struct ct_allocation_stats *s, uint32_t api, uint32_t op) {
    uint64_t *at = ct_map_add(&s->call_positions, (uint64_t)op << 32 | api);
    if (!*at) {
        CT_HEAP_GROW(s->calls, s->call_count, s->call_capacity);
        s->calls[s->call_count++] = (struct ct_call_stats){.api = api, .op = op};
        *at = s->call_count;
    }
    return *at;
}

// The calls of an event. Mostly they are those of the operation's last event.
static struct ct_call_stats *get_call(struct pass *p, const struct ct_event *e) {
    const uint32_t api = CT_GET(e, api);
    size_t *latest = &p->latest_call[e->op];
    if (!*latest || p->stats->calls[*latest - 1].api != api)
        *latest = find_call(p->stats, api, e->op);
    return &p->stats->calls[*latest - 1];
}

static void count_call(struct pass *p, const struct ct_event *e) {
    const int failed = CT_HAS(e, result) && e->result != 0;
    if (!is_memory_call(e->op) ||
        !(p->request->device < 0 || (CT_HAS(e, device) && e->device == p->request->device)))
        return;
    struct ct_call_stats *c = get_call(p, e);
    c->count++;
    c->failed += (uint64_t)failed;
    c->out_of_memory += (uint64_t)ct_event_is_oom(e);
    c->bytes += failed ? 0 : CT_GET(e, bytes);
    if (!CT_HAS(e, duration_ns))
        return;
    c->timed++;
    c->duration_ns += e->duration_ns;
    if (e->duration_ns > c->longest_ns)
        c->longest_ns = e->duration_ns;
}

// ---- the pass -----------------------------------------------------------------------------------

static int compare_sizes(const void *a, const void *b) {
    const struct ct_size_count *x = a, *y = b;
    const unsigned __int128 left = (unsigned __int128)x->size * x->count,
                            right = (unsigned __int128)y->size * y->count;
    if (left != right)
        return left > right ? -1 : 1;
    return x->size > y->size ? -1 : x->size < y->size;
}

static int compare_calls(const void *a, const void *b) {
    const struct ct_call_stats *x = a, *y = b;
    if (x->duration_ns != y->duration_ns)
        return x->duration_ns > y->duration_ns ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return x->api < y->api ? -1 : x->api > y->api;
}

static void sort_all(struct ct_allocation_stats *s) {
    for (int d = 0; d < CT_DEVICES; d++)
        for (unsigned kind = 0; kind < CT_STATS_KINDS; kind++) {
            struct ct_object_stats *o = &s->of[d][kind];
            if (o->size_count)
                qsort(o->by_size, o->size_count, sizeof *o->by_size, compare_sizes);
        }
    if (s->call_count)
        qsort(s->calls, s->call_count, sizeof *s->calls, compare_calls);
}

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct pass *p = self;
    (void)r;
    (void)number;
    p->now = e->t_ns;
    p->in_range = e->t_ns >= p->request->from_ns;
    if (p->in_range && ct_op_is_block(e->op))
        count_block(p, e);
    else if (p->in_range)
        count_call(p, e);
    if (e->op == CT_OP_LOST)
        p->stats->lost += CT_HAS(e, count) ? e->count : 1;
    return 1;
}

// Objects that a checkpoint restores are no new allocations.
static int before_gap(void *self, const struct ct_replay *r, uint64_t number, uint64_t next_ns) {
    struct pass *p = self;
    (void)r;
    (void)number;
    (void)next_ns;
    p->in_range = 0;
    return 1;
}

static void read_all(struct ct_allocation_stats *s, struct ct_trace *t,
                     const struct ct_stats_request *request) {
    struct pass p = {.stats = s, .request = request};
    const struct ct_listener a = {.self = &p,
                                  .end_ns = request->to_ns + 1,
                                  .before = before_event,
                                  .before_gap = before_gap,
                                  .live_changed = live_changed,
                                  .needs_no_readings = 1};
    struct ct_pass pass;
    ct_pass_init(&pass, NULL);
    pass.replay->tiles = 0;
    ct_listeners_add(&pass.listeners, &a);
    p.replay = pass.replay;
    ct_pass_run(&pass, t);
    count_live(&p);
    ct_pass_free(&pass);
}

void ct_allocation_stats_read(struct ct_allocation_stats *s, struct ct_trace *t,
                              const struct ct_stats_request *request) {
    *s = (struct ct_allocation_stats){.calls = NULL};
    read_all(s, t, request);
    sort_all(s);
}

void ct_allocation_stats_free(struct ct_allocation_stats *s) {
    for (int d = 0; d < CT_DEVICES; d++)
        for (unsigned kind = 0; kind < CT_STATS_KINDS; kind++) {
            free(s->of[d][kind].by_size);
            ct_map_free(&s->of[d][kind].positions);
        }
    free(s->calls);
    ct_map_free(&s->call_positions);
    *s = (struct ct_allocation_stats){.calls = NULL};
}
