// SPDX-License-Identifier: Apache-2.0
// PyTorch calls the driver and hands out the block under one lock. So the next block-alloc on the
// same thread is the request that the driver was called for, if its block lies in the memory that
// the driver returned.
#include "analyze/pool_growth.h"

#include "base/heap.h"

enum { OUT_OF_MEMORY = 2 }; // CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation

static uint32_t thread_of(const struct ct_event *e) {
    return CT_HAS(e, thread) ? e->thread : 0;
}

static struct ct_driver_request *request_of(struct ct_pool_growths *g, const struct ct_event *e) {
    const uint32_t thread = thread_of(e);
    if (thread >= g->thread_count) {
        const size_t count = thread + 64u;
        g->requests = ct_heap_resize(g->requests, count, sizeof *g->requests);
        memset(g->requests + g->thread_count, 0, (count - g->thread_count) * sizeof *g->requests);
        g->thread_count = count;
    }
    return &g->requests[thread];
}

// Returns the request that the event's thread has open, or NULL.
static const struct ct_driver_request *open_request_of(const struct ct_pool_growths *g,
                                                       const struct ct_event *e) {
    const uint32_t thread = thread_of(e);
    return thread < g->thread_count && g->requests[thread].open ? &g->requests[thread] : NULL;
}

static void open_request(struct ct_driver_request *q, const struct ct_replay *r, int device,
                         uint64_t number) {
    const struct ct_torch_pool_totals f = ct_torch_pool_totals(&r->pool, &r->live, device);
    *q = (struct ct_driver_request){.open = 1, .device = device, .before_event = number};
    memcpy(q->of_class, f.of_class, sizeof q->of_class);
}

// Returns the index of the device that the memory is on. For a mapping, that is the device of the
// mapped handle.
static int device_of(const struct ct_replay *r, const struct ct_event *e) {
    const struct ct_object *o = NULL;
    if (e->op == CT_OP_MAP && !CT_HAS(e, device) && CT_HAS(e, handle))
        o = ct_live_find(&r->live, CT_KIND_HANDLE, e->handle);
    return o && o->device != CT_NO_DEVICE ? o->device : ct_event_device_index(e);
}

// Adds a call to the driver. A failed call and the retry behind it belong to one request, and so do
// mappings side by side.
static void add_call(struct ct_driver_request *q, const struct ct_replay *r,
                     const struct ct_event *e, uint64_t number) {
    const int device = device_of(r, e), failed = CT_HAS(e, result) && e->result != 0;
    const int retry = q->open && q->failed && !q->end && q->device == device;
    if (failed) {
        if (e->result != OUT_OF_MEMORY)
            return;
        if (!retry)
            open_request(q, r, device, number);
        q->failed = 1;
        return;
    }
    if (e->op == CT_OP_CREATE || !CT_HAS(e, ptr) || !CT_HAS(e, bytes))
        return;
    const int maps = e->op == CT_OP_MAP;
    if (maps && q->open && q->maps && q->end == e->ptr && q->device == device) {
        q->end += e->bytes;
        return;
    }
    if (!retry)
        open_request(q, r, device, number);
    q->maps = maps;
    q->start = e->ptr;
    q->end = e->ptr + e->bytes;
}

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

// Counts a request whose outcome is the event e.
static void count_request(struct ct_pool_growths *g, const struct ct_driver_request *q,
                          const struct ct_event *e, uint64_t number) {
    struct ct_pool_growth w = {.event = number,
                               .t_ns = e->t_ns,
                               .before_event = q->before_event,
                               .requested = CT_HAS(e, bytes) ? e->bytes : 0,
                               .obtained = q->end - q->start,
                               .stack = CT_HAS(e, stack) ? e->stack : 0,
                               .thread = thread_of(e),
                               .device = q->device,
                               .oom = e->op == CT_OP_BLOCK_OOM,
                               .driver_failed = q->failed != 0};
    w.class = w.requested <= CT_TORCH_POOL_SMALL_BLOCK ? CT_TORCH_POOL_SMALL : CT_TORCH_POOL_LARGE;
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

static int lies_in(const struct ct_event *e, const struct ct_driver_request *q) {
    return CT_HAS(e, ptr) && CT_HAS(e, bytes) && e->ptr < q->end && e->ptr + e->bytes > q->start;
}

void ct_pool_growth_update(struct ct_pool_growths *g, const struct ct_replay *r,
                           const struct ct_event *e, uint64_t number, int counts) {
    struct ct_driver_request *q;
    // Fast path: most blocks are served without a call to the driver.
    if ((e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_BLOCK_FREE) && !open_request_of(g, e))
        return;
    switch (e->op) {
    case CT_OP_ALLOC:
    case CT_OP_CREATE:
    case CT_OP_MAP:
        add_call(request_of(g, e), r, e, number);
        break;
    case CT_OP_BLOCK_ALLOC:
        q = request_of(g, e);
        if (counts && q->open && q->end && lies_in(e, q) && q->device == ct_event_device_index(e))
            count_request(g, q, e, number);
        q->open = 0;
        break;
    case CT_OP_BLOCK_FREE:
        request_of(g, e)->open = 0;
        break;
    case CT_OP_BLOCK_OOM:
        q = request_of(g, e);
        if (!q->open || q->end || q->device != ct_event_device_index(e))
            open_request(q, r, ct_event_device_index(e), number);
        if (counts)
            count_request(g, q, e, number);
        q->open = 0;
        break;
    default:
        break;
    }
}

int ct_pool_growth_driver_failed(const struct ct_pool_growths *g, const struct ct_event *e) {
    const struct ct_driver_request *q = open_request_of(g, e);
    return q && q->failed && !q->end;
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

void ct_pool_growth_free(struct ct_pool_growths *g) {
    free(g->requests);
    free(g->list);
    *g = (struct ct_pool_growths){0};
}

const char *ct_pool_growth_cause_name(enum ct_growth_cause cause) {
    static const char *const names[] = {"not_enough_free", "fragmented", "fit_unused"};
    return names[cause];
}
