// SPDX-License-Identifier: Apache-2.0
// Only the latest request of a thread is open: its next call either repeats it or begins another.
#include "analyze/driver_requests.h"

#include <cutrace/model/failures.h>

#include "base/heap.h"

enum { OF_DEVICE, OTHER, KINDS };

CT_HOT struct ct_driver_request *request_of(struct ct_driver_requests *d, uint32_t thread,
                                            int kind) {
    if (thread >= d->count) {
        const size_t count = thread + 64u;
        d->list = ct_heap_resize(d->list, count * KINDS, sizeof *d->list);
        memset(d->list + d->count * KINDS, 0, (count - d->count) * KINDS * sizeof *d->list);
        d->count = count;
    }
    return &d->list[thread * KINDS + (size_t)kind];
}

// Returns the open request for memory of a device, or NULL. It never allocates: most blocks are
// served without a call to the driver.
static struct ct_driver_request *find_open(const struct ct_driver_requests *d,
                                           const struct ct_event *e) {
    const uint32_t thread = CT_GET(e, thread);
    struct ct_driver_request *q = thread < d->count ? &d->list[thread * KINDS + OF_DEVICE] : NULL;
    return q && q->open ? q : NULL;
}

// Whether a call asks for host memory or address space, not for memory of a device.
static int is_other(const struct ct_event *e) {
    return e->op == CT_OP_REGISTER || e->op == CT_OP_RESERVE ||
           (CT_HAS(e, space) && e->space == CT_SPACE_HOST);
}

// Sets each field. (Assigning all at once clears them first, with an instruction that takes longer
// than the rest of what is done with an event.)
CT_HOT void open_request(struct ct_driver_request *q, const struct ct_replay *r, int device,
                         const struct ct_event *e, uint64_t number) {
    q->open = 1;
    q->device = device;
    q->before_event = number;
    q->bytes = CT_GET(e, bytes);
    q->failed = q->obtained = q->maps = q->freed = 0;
    q->start = q->end = q->obtained_event = q->obtained_t_ns = 0;
    q->incident = 0;
    q->async = e->op == CT_OP_GRAPH_ALLOC || (CT_HAS(e, flags) && e->flags & CT_FLAG_ASYNC);
    q->in_parts = e->op == CT_OP_CREATE || e->op == CT_OP_MAP;
    if (!r->pool.on || is_other(e)) {
        memset(q->of_class, 0, sizeof q->of_class);
        return;
    }
    const struct ct_torch_pool_totals f = ct_torch_pool_totals(&r->pool, &r->live, device);
    memcpy(q->of_class, f.of_class, sizeof q->of_class);
}

// Returns the index of the device that the memory is on. For a mapping, that is the device of the
// mapped handle.
CT_HOT int device_of(const struct ct_replay *r, const struct ct_event *e) {
    const struct ct_object *o = NULL;
    if (e->op == CT_OP_MAP && !CT_HAS(e, device) && CT_HAS(e, handle))
        o = ct_live_find(&r->live, CT_KIND_HANDLE, e->handle);
    return o && o->device != CT_NO_DEVICE ? o->device : ct_event_device_index(e);
}

static int is_repetition(const struct ct_driver_request *q, const struct ct_event *e, int device) {
    return q->open && q->failed && !q->obtained && q->device == device && q->bytes &&
           CT_HAS(e, bytes) && q->bytes == e->bytes;
}

static struct ct_driver_request *follow_failure(struct ct_driver_request *q,
                                                const struct ct_replay *r, const struct ct_event *e,
                                                uint64_t number) {
    const int device = device_of(r, e);
    if (!is_repetition(q, e, device))
        open_request(q, r, device, e, number);
    q->failed = 1;
    return q;
}

// Mappings side by side belong to one request.
CT_HOT struct ct_driver_request *follow_success(struct ct_driver_request *q,
                                                const struct ct_replay *r, const struct ct_event *e,
                                                uint64_t number) {
    const int device = device_of(r, e), maps = e->op == CT_OP_MAP;
    const int has_range = CT_HAS(e, ptr) && CT_HAS(e, bytes);
    if (e->op == CT_OP_CREATE)
        return NULL;
    if (maps && has_range && q->open && q->maps && q->end == e->ptr && q->device == device) {
        q->end += e->bytes;
        return q;
    }
    if (!is_repetition(q, e, device))
        open_request(q, r, device, e, number);
    q->obtained = 1;
    q->obtained_event = number;
    q->obtained_t_ns = e->t_ns;
    q->maps = maps;
    q->start = has_range ? e->ptr : 0;
    q->end = has_range ? e->ptr + e->bytes : 0;
    return q;
}

static struct ct_driver_request *follow_call(struct ct_driver_requests *d,
                                             const struct ct_replay *r, const struct ct_event *e,
                                             uint64_t number) {
    struct ct_driver_request *q = request_of(d, CT_GET(e, thread), is_other(e) ? OTHER : OF_DEVICE);
    if (!CT_HAS(e, result) || e->result == 0)
        return follow_success(q, r, e, number);
    if (!ct_event_is_oom(e))
        return NULL;
    d->has_failed = 1;
    return follow_failure(q, r, e, number);
}

static struct ct_driver_request *follow_block(struct ct_driver_request *q,
                                              const struct ct_event *e) {
    if (!q)
        return NULL;
    q->open = 0;
    const int inside = q->obtained && CT_HAS(e, ptr) && CT_HAS(e, bytes) && e->ptr < q->end &&
                       e->ptr + e->bytes > q->start;
    return inside && q->device == ct_event_device_index(e) ? q : NULL;
}

// Whether PyTorch may have made the failed calls of a request for a block: it asks the driver for
// at least the block, or for parts of the same size that it maps side by side.
static int may_be_for_block(const struct ct_driver_request *q, const struct ct_event *e) {
    if (!q || !q->failed || q->obtained || q->async || q->device != ct_event_device_index(e))
        return 0;
    return q->in_parts || (CT_HAS(e, bytes) && q->bytes >= e->bytes);
}

static struct ct_driver_request *follow_block_oom(struct ct_driver_requests *d,
                                                  const struct ct_replay *r,
                                                  const struct ct_event *e, uint64_t number) {
    struct ct_driver_request *q = request_of(d, CT_GET(e, thread), OF_DEVICE);
    if (!may_be_for_block(q->open ? q : NULL, e))
        open_request(q, r, ct_event_device_index(e), e, number);
    q->open = 0;
    return q;
}

// ---- interface ----------------------------------------------------------------------------------

struct ct_driver_request *ct_driver_requests_follow_slow(struct ct_driver_requests *d,
                                                         const struct ct_replay *r,
                                                         const struct ct_event *e,
                                                         uint64_t number) {
    struct ct_driver_request *q;
    switch (e->op) {
    case CT_OP_ALLOC:
    case CT_OP_CREATE:
    case CT_OP_MAP:
    case CT_OP_GRAPH_ALLOC:
    case CT_OP_REGISTER:
    case CT_OP_RESERVE:
        return follow_call(d, r, e, number);
    case CT_OP_BLOCK_ALLOC:
        return follow_block(find_open(d, e), e);
    case CT_OP_BLOCK_OOM:
        return follow_block_oom(d, r, e, number);
    case CT_OP_BLOCK_FREE:
        q = find_open(d, e);
        if (q)
            q->open = 0;
        return NULL;
    case CT_OP_FREE:
    case CT_OP_UNMAP:
        q = find_open(d, e);
        if (q)
            q->freed |= q->failed && !q->obtained;
        return NULL;
    default:
        return NULL;
    }
}

void ct_driver_requests_free(struct ct_driver_requests *d) {
    free(d->list);
    *d = (struct ct_driver_requests){0};
}
