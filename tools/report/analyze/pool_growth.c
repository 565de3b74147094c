// SPDX-License-Identifier: Apache-2.0
// PyTorch asks the driver and hands the block out under one lock, so the block-alloc that follows on the same thread is the
// request, if its block lies in what the driver gave.
#include "analyze/pool_growth.h"

#include "base/heap.h"

enum { OUT_OF_MEMORY = 2 };

static struct ct_driver_request *asking_of(struct ct_pool_growths *g, const struct ct_event *e) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
    if (thread >= g->thread_count) {
        const size_t count = thread + 64u;
        g->asking = ct_heap_resize(g->asking, count, sizeof *g->asking);
        memset(g->asking + g->thread_count, 0, (count - g->thread_count) * sizeof *g->asking);
        g->thread_count = count;
    }
    return &g->asking[thread];
}

// The same of a thread that has asked for something since its last block; else NULL.
static const struct ct_driver_request *open_asking(const struct ct_pool_growths *g, const struct ct_event *e) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
    return thread < g->thread_count && g->asking[thread].open ? &g->asking[thread] : NULL;
}

static void open_at(struct ct_driver_request *a, const struct ct_replay *r, int device, uint64_t number) {
    const struct ct_torch_pool_totals f = ct_torch_pool_totals(&r->pool, &r->live, device);
    *a = (struct ct_driver_request){.open = 1, .device = device, .before_event = number};
    memcpy(a->of_class, f.of_class, sizeof a->of_class);
}

// A mapping is on the device of what is mapped.
static int device_of(const struct ct_replay *r, const struct ct_event *e) {
    const struct ct_object *o = NULL;
    if (e->op == CT_OP_MAP && !CT_HAS(e, device) && CT_HAS(e, handle))
        o = ct_live_find(&r->live, CT_KIND_HANDLE, e->handle);
    return o && o->device != CT_NO_DEVICE ? o->device : ct_event_device_index(e);
}

// What the thread asks of the driver. A call that is refused and what is asked again behind it belong together, and so do
// mappings side by side.
static void asks(struct ct_driver_request *a, const struct ct_replay *r, const struct ct_event *e,
                 uint64_t number) {
    const int device = device_of(r, e), refused = CT_HAS(e, result) && e->result != 0;
    const int again = a->open && a->refused && !a->end && a->device == device;
    if (refused) {
        if (e->result != OUT_OF_MEMORY)
            return;
        if (!again)
            open_at(a, r, device, number);
        a->refused = 1;
        return;
    }
    if (e->op == CT_OP_CREATE || !CT_HAS(e, ptr) || !CT_HAS(e, bytes))
        return;
    const int maps = e->op == CT_OP_MAP;
    if (maps && a->open && a->maps && a->end == e->ptr && a->device == device) {
        a->end += e->bytes;
        return;
    }
    if (!again)
        open_at(a, r, device, number);
    a->maps = maps;
    a->start = e->ptr;
    a->end = e->ptr + e->bytes;
}

static enum ct_growth_cause kind_of(const struct ct_pool_growth *w) {
    return w->requested > w->free.bytes     ? CT_GROWTH_NOT_ENOUGH_FREE
           : w->requested > w->free.largest ? CT_GROWTH_FRAGMENTED
                                            : CT_GROWTH_FIT_UNUSED;
}

static int by_event(const void *a, const void *b) {
    const struct ct_pool_growth *x = a, *y = b;
    return x->event < y->event ? -1 : x->event > y->event;
}

// What lay scattered; and a request that failed comes before one that made the pool grow.
static int by_weight(const void *a, const void *b) {
    const struct ct_pool_growth *x = a, *y = b;
    const uint64_t of_x = x->free.bytes - x->free.largest, of_y = y->free.bytes - y->free.largest;
    if (x->refused != y->refused)
        return x->refused ? -1 : 1;
    if (of_x != of_y)
        return of_x > of_y ? -1 : 1;
    return by_event(a, b);
}

static void keep(struct ct_pool_growths *g, const struct ct_pool_growth *w) {
    if (g->count == (size_t)CT_POOL_GROWTHS_LISTED * 2) {
        qsort(g->list, g->count, sizeof *g->list, by_weight);
        g->count = CT_POOL_GROWTHS_LISTED;
        g->left_out += CT_POOL_GROWTHS_LISTED;
        qsort(g->list, g->count, sizeof *g->list, by_event);
    }
    CT_HEAP_GROW(g->list, g->count, g->capacity);
    g->list[g->count++] = *w;
}

static void request(struct ct_pool_growths *g, const struct ct_driver_request *a, const struct ct_event *e,
                    uint64_t number) {
    struct ct_pool_growth w = {.event = number,
                          .t_ns = e->t_ns,
                          .before_event = a->before_event,
                          .requested = CT_HAS(e, bytes) ? e->bytes : 0,
                          .obtained = a->end - a->start,
                          .stack = CT_HAS(e, stack) ? e->stack : 0,
                          .thread = CT_HAS(e, thread) ? e->thread : 0,
                          .device = a->device,
                          .refused = e->op == CT_OP_BLOCK_OOM,
                          .driver_refused = a->refused != 0};
    w.class = w.requested <= CT_TORCH_POOL_SMALL_BLOCK ? CT_TORCH_POOL_SMALL : CT_TORCH_POOL_LARGE;
    w.free = a->of_class[w.class];
    w.kind = kind_of(&w);
    struct ct_pool_growth_counts *c = &g->device[w.device];
    (w.refused ? c->refused : c->grown)[w.kind]++;
    c->retries += w.refused || w.driver_refused;
    if (w.refused || w.kind == CT_GROWTH_FRAGMENTED)
        keep(g, &w);
}

void ct_pool_growth_update(struct ct_pool_growths *g, const struct ct_replay *r, const struct ct_event *e,
                    uint64_t number, int counts) {
    struct ct_driver_request *a;
    if ((e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_BLOCK_FREE) && !open_asking(g, e))
        return;
    switch (e->op) {
    case CT_OP_ALLOC:
    case CT_OP_CREATE:
    case CT_OP_MAP:
        asks(asking_of(g, e), r, e, number);
        break;
    case CT_OP_BLOCK_ALLOC:
        a = asking_of(g, e);
        if (counts && a->open && a->end && CT_HAS(e, ptr) && CT_HAS(e, bytes) && e->ptr < a->end &&
            e->ptr + e->bytes > a->start && a->device == ct_event_device_index(e))
            request(g, a, e, number);
        a->open = 0;
        break;
    case CT_OP_BLOCK_FREE:
        asking_of(g, e)->open = 0;
        break;
    case CT_OP_BLOCK_OOM:
        a = asking_of(g, e);
        if (!a->open || a->end || a->device != ct_event_device_index(e))
            open_at(a, r, ct_event_device_index(e), number);
        if (counts)
            request(g, a, e, number);
        a->open = 0;
        break;
    default:
        break;
    }
}

int ct_pool_growth_driver_failed(const struct ct_pool_growths *g, const struct ct_event *e) {
    const struct ct_driver_request *a = open_asking(g, e);
    return a && a->refused && !a->end;
}

struct ct_pool_growth *ct_pool_growth_pick_worst(const struct ct_pool_growths *g, int device, size_t most,
                                   size_t *count) {
    struct ct_pool_growth *list = ct_heap_alloc_zeroed(g->count, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < g->count; i++)
        if (g->list[i].device == device)
            list[n++] = g->list[i];
    if (n)
        qsort(list, n, sizeof *list, by_weight);
    *count = n < most ? n : most;
    if (*count)
        qsort(list, *count, sizeof *list, by_event);
    return list;
}

void ct_pool_growth_free(struct ct_pool_growths *g) {
    free(g->asking);
    free(g->list);
    *g = (struct ct_pool_growths){0};
}

const char *ct_pool_growth_cause_name(enum ct_growth_cause kind) {
    static const char *const names[] = {"full", "pieces", "usable"};
    return names[kind];
}
