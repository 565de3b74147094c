// SPDX-License-Identifier: Apache-2.0
// Each request is counted when its outcome is known: at its block-alloc or block-oom.
#include "analyze/pool_growth.h"

#include "base/heap.h"

// ---- streams of segments ------------------------------------------------------------------------

// A second's work: a server that fails a thousand times has a thousand segments each time.
#define MOST_LOOKED_AT (UINT64_C(1) << 28)

void ct_segment_streams_init(struct ct_segment_streams *s, const struct ct_trace *t) {
    *s = (struct ct_segment_streams){
        .are_recorded = ct_definitions_info(&t->definitions, "torch.block_streams") != NULL};
}

static uint64_t key_of_space(uint64_t start) {
    return start | 1; // (it is a multiple of pages)
}

static uint64_t key_of(const struct ct_torch_region *r) {
    return r->maps && r->reservation ? key_of_space(r->reservation) : r->event << 1;
}

static void note_block(struct ct_segment_streams *s, const struct ct_replay *r,
                       const struct ct_event *e) {
    const struct ct_torch_region *in = ct_torch_pool_find_segment(&r->pool, e->ptr);
    if (!in || CT_GET(e, stream) == CT_STREAM_UNKNOWN)
        return;
    uint64_t *stream = ct_map_add(&s->of, key_of(in));
    s->disagree |= *stream && *stream != CT_GET(e, stream) + 1;
    *stream = CT_GET(e, stream) + 1;
}

void ct_segment_streams_note(struct ct_segment_streams *s, const struct ct_replay *r,
                             const struct ct_event *e) {
    if (!s->are_recorded || !CT_HAS(e, ptr))
        return;
    if (e->op == CT_OP_BLOCK_ALLOC)
        note_block(s, r, e);
    uint64_t *ended = e->op == CT_OP_UNRESERVE ? ct_map_find(&s->of, key_of_space(e->ptr)) : NULL;
    if (ended)
        *ended = 0;
}

static void add_free_blocks(struct ct_free_blocks *f, const struct ct_torch_pool *p,
                            const struct ct_torch_region *r) {
    const struct ct_range_tree *tree = &p->device[r->device].free[ct_torch_pool_region_class(r)];
    const uint64_t end = r->start + r->bytes;
    struct ct_tree_range at;
    for (uint64_t from = r->start; ct_range_tree_find(tree, from, &at) && at.start < end;
         from = at.start + at.bytes) {
        f->ranges++;
        f->bytes += at.bytes;
        f->largest = at.bytes > f->largest ? at.bytes : f->largest;
    }
}

struct ct_other_streams ct_segment_streams_find_others(struct ct_segment_streams *s,
                                                       const struct ct_replay *r,
                                                       const struct ct_event *e, int device,
                                                       enum ct_torch_pool_class class) {
    const struct ct_torch_pool *p = &r->pool;
    const uint64_t stream = CT_GET(e, stream);
    struct ct_other_streams others = {.known = s->are_recorded && stream != CT_STREAM_UNKNOWN &&
                                               s->looked_at < MOST_LOOKED_AT};
    s->looked_at += others.known ? p->region_count : 0;
    for (uint32_t i = 0; others.known && i < p->region_count; i++) {
        const struct ct_torch_region *in = &p->regions[i];
        if (!in->bytes || !in->held || !in->free || in->device != device ||
            ct_torch_pool_region_class(in) != class)
            continue;
        const uint64_t *of = ct_map_find(&s->of, key_of(in));
        if (!of || !*of)
            others.unknown += in->free;
        else if (*of != stream + 1)
            add_free_blocks(&others.free, p, in);
    }
    s->looked_at += others.free.ranges;
    return others;
}

void ct_segment_streams_free(struct ct_segment_streams *s) {
    ct_map_free(&s->of);
}

// ---- requests for which the pool grew -----------------------------------------------------------

static enum ct_growth_cause cause_of(const struct ct_pool_growth *w) {
    if (w->requested > w->free.bytes)
        return CT_GROWTH_NOT_ENOUGH_FREE;
    if (w->requested > w->free.largest)
        return CT_GROWTH_FRAGMENTED;
    return CT_GROWTH_FIT_UNUSED;
}

static int compare_events(const void *a, const void *b) {
    const struct ct_pool_growth *x = a, *y = b;
    return x->event < y->event ? -1 : x->event > y->event;
}

static uint64_t scattered(const struct ct_pool_growth *w) {
    return w->free.bytes - w->free.largest;
}

// OOMs come before requests that made the pool grow, then the most scattered bytes first.
static int compare_weights(const void *a, const void *b) {
    const struct ct_pool_growth *x = a, *y = b;
    if (x->oom != y->oom)
        return x->oom ? -1 : 1;
    if (scattered(x) != scattered(y))
        return scattered(x) > scattered(y) ? -1 : 1;
    return compare_events(a, b);
}

static void add_to_list(struct ct_pool_growths *g, const struct ct_pool_growth *w) {
    if (g->count == (size_t)CT_POOL_GROWTHS_LISTED * 2) {
        qsort(g->list, g->count, sizeof *g->list, compare_weights);
        g->count = CT_POOL_GROWTHS_LISTED;
        g->left_out += CT_POOL_GROWTHS_LISTED;
        qsort(g->list, g->count, sizeof *g->list, compare_events);
    }
    CT_HEAP_GROW(g->list, g->count, g->capacity);
    g->list[g->count++] = *w;
}

enum ct_torch_pool_class ct_pool_growth_class(uint64_t requested) {
    return requested <= CT_TORCH_POOL_SMALL_BLOCK ? CT_TORCH_POOL_SMALL : CT_TORCH_POOL_LARGE;
}

int ct_pool_growth_fits_other_stream(const struct ct_pool_growth *w) {
    return w->others.known && w->requested && w->others.free.largest >= w->requested;
}

void ct_pool_growth_count(struct ct_pool_growths *g, const struct ct_driver_request *q,
                          const struct ct_other_streams *others, const struct ct_event *e,
                          uint64_t number) {
    struct ct_pool_growth w = {.event = number,
                               .t_ns = e->t_ns,
                               .before_event = q->before_event,
                               .requested = CT_GET(e, bytes),
                               .obtained = q->end - q->start,
                               .stack = CT_GET(e, stack),
                               .thread = CT_GET(e, thread),
                               .device = q->device,
                               .oom = e->op == CT_OP_BLOCK_OOM,
                               .driver_failed = q->failed != 0,
                               .others = *others};
    w.class = ct_pool_growth_class(w.requested);
    w.free = q->of_class[w.class];
    w.cause = cause_of(&w);
    struct ct_pool_growth_counts *c = &g->device[w.device];
    if (w.oom)
        c->ooms[w.cause]++;
    else
        c->grown[w.cause]++;
    c->retries += w.oom || w.driver_failed;
    if (w.oom || w.cause == CT_GROWTH_FRAGMENTED)
        add_to_list(g, &w);
}

const struct ct_pool_growth *ct_pool_growth_find(const struct ct_pool_growths *g, uint64_t event) {
    const struct ct_pool_growth key = {.event = event};
    return g->count ? bsearch(&key, g->list, g->count, sizeof key, compare_events) : NULL;
}

struct ct_pool_growth *ct_pool_growth_pick_worst(const struct ct_pool_growths *g, int device,
                                                 size_t most, size_t *count) {
    struct ct_pool_growth *list = ct_heap_alloc_zeroed(g->count, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < g->count; i++)
        if (g->list[i].device == device)
            list[n++] = g->list[i];
    if (n)
        qsort(list, n, sizeof *list, compare_weights);
    *count = n < most ? n : most;
    if (*count)
        qsort(list, *count, sizeof *list, compare_events);
    return list;
}

void ct_pool_growth_forget_streams(struct ct_pool_growths *g) {
    for (size_t i = 0; i < g->count; i++)
        g->list[i].others = (struct ct_other_streams){0};
}

void ct_pool_growth_free(struct ct_pool_growths *g) {
    free(g->list);
    *g = (struct ct_pool_growths){0};
}

const char *ct_pool_growth_cause_name(enum ct_growth_cause cause) {
    static const char *const names[] = {"not_enough_free", "fragmented", "fit_unused"};
    return names[cause];
}
