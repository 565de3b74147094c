// SPDX-License-Identifier: Apache-2.0
// Each request is counted when its outcome is known: at its block-alloc or block-oom.
#include "analyze/pool_growth.h"

#include "base/heap.h"

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
                               .requested = CT_HAS(e, bytes) ? e->bytes : 0,
                               .obtained = q->end - q->start,
                               .stack = CT_HAS(e, stack) ? e->stack : 0,
                               .thread = CT_HAS(e, thread) ? e->thread : 0,
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
