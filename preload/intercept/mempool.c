// SPDX-License-Identifier: Apache-2.0
// Hooks on stream-ordered memory, on memory pools, and on the synchronizations after which a pool
// shrinks.
//
// The memory that a pool holds is not the sum of its allocations: a pool grows on a miss, keeps
// what is freed, and returns what exceeds its release threshold to the device at the next
// synchronization (cuda.h, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD). Only the pool's own attributes tell,
// so they are sampled.
#define _GNU_SOURCE
#include <stdatomic.h>

#include "base/clock.h"
#include "base/options.h"
#include "intercept/cuda_context.h"
#include "intercept/driver.h"
#include "intercept/hook_scope.h"
#include "intercept/passes.h"
#include "intercept/stream.h"
#include "record/publish.h"

// ---- the pools seen -------------------------------------------------------------------------

#define POOLS 128
static struct pool {
    _Atomic uint64_t handle; // 0: a free entry
    atomic_int device;       // CT_NO_DEVICE_ORDINAL: not device memory, or not known
    atomic_int space;        // enum ct_space
    atomic_int dirty;        // may have grown or shrunk since the last sample
    _Atomic uint64_t reserved, used;
    _Atomic uint64_t sampled_ns;
} pools[POOLS];
static atomic_int any_is_dirty;

static struct pool *find_pool(uint64_t handle) {
    for (int i = 0; handle && i < POOLS; i++)
        if (atomic_load_explicit(&pools[i].handle, memory_order_acquire) == handle)
            return &pools[i];
    return NULL;
}

static struct pool *add_pool(uint64_t handle, int device, enum ct_space space) {
    struct pool *p = find_pool(handle);
    for (int i = 0; handle && !p && i < POOLS; i++) {
        uint64_t empty = 0;
        if (atomic_compare_exchange_strong(&pools[i].handle, &empty, handle)) {
            p = &pools[i];
            atomic_store(&p->reserved, 0);
            atomic_store(&p->used, 0);
            atomic_store(&p->dirty, 0);
            atomic_store(&p->sampled_ns, 0);
            atomic_store(&p->device, device);
            atomic_store(&p->space, (int)space);
        }
    }
    return p;
}

static void remove_pool(uint64_t handle) {
    struct pool *p = find_pool(handle);
    if (p)
        atomic_store(&p->handle, 0);
}

static void mark_dirty(struct pool *p) {
    if (p)
        atomic_store_explicit(&p->dirty, 1, memory_order_relaxed);
    atomic_store_explicit(&any_is_dirty, 1, memory_order_relaxed);
}

static void mark_all_dirty(void) {
    for (int i = 0; i < POOLS; i++)
        if (atomic_load_explicit(&pools[i].handle, memory_order_relaxed))
            mark_dirty(&pools[i]);
}

static void sample_pool(const struct ct_hook_call *call, struct pool *p) {
    const struct ct_driver *driver = ct_driver();
    const uint64_t handle = atomic_load(&p->handle);
    CUmemoryPool pool = (CUmemoryPool)(uintptr_t)handle;
    cuuint64_t reserved, used;
    if (!handle || !driver->pool_attribute ||
        CT_ASK(driver->pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved)) ||
        CT_ASK(driver->pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used)))
        return;
    const uint64_t old_reserved = atomic_exchange(&p->reserved, reserved);
    const uint64_t old_used = atomic_exchange(&p->used, used);
    if (old_reserved == reserved && old_used == used)
        return;
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_POOL_SAMPLE);
    CT_SET(&e, api, call->event.api);
    CT_SET(&e, pool, handle);
    CT_SET(&e, reserved_bytes, reserved);
    CT_SET(&e, used_bytes, used);
    const int device = atomic_load(&p->device);
    if (device != CT_NO_DEVICE_ORDINAL)
        CT_SET(&e, device, device);
    ct_publish(&e);
}

// Beside allocations, so that a pool's growth shows in a program that never synchronizes.
static void sample_pool_if_due(const struct ct_hook_call *call, struct pool *p) {
    const uint64_t last = p ? atomic_load_explicit(&p->sampled_ns, memory_order_relaxed) : 0;
    const uint64_t now = call->start_ns ? call->start_ns : ct_clock_read_unordered();
    if (!p || (last && now - last < CT_OPTION_NUMBER(SAMPLE_MS)) || ct_stream_any_capturing())
        return;
    atomic_store_explicit(&p->sampled_ns, now, memory_order_relaxed);
    sample_pool(call, p);
}

// Memory returns to the device at a synchronization, by no call that frees. So every pool is
// sampled that may hold more or less than at its last sample.
static void sample_dirty_pools(const struct ct_hook_call *call) {
    if (!atomic_load_explicit(&any_is_dirty, memory_order_relaxed) || ct_stream_any_capturing())
        return;
    atomic_store_explicit(&any_is_dirty, 0, memory_order_relaxed);
    for (int i = 0; i < POOLS; i++)
        if (atomic_exchange_explicit(&pools[i].dirty, 0, memory_order_relaxed))
            sample_pool(call, &pools[i]);
}

// ---- allocation -----------------------------------------------------------------------------

static uint64_t stream_id(CUstream stream, int ptsz) {
    return (uintptr_t)ct_stream_effective(stream, ptsz);
}

// A stream need not be on the current context's device.
static int find_stream_device(CUstream stream) {
    const struct ct_driver *driver = ct_driver();
    uint64_t context;
    int device = CT_NO_DEVICE_ORDINAL;
    CUcontext of_stream;
    if ((uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD && driver->stream_context &&
        CT_ASK(driver->stream_context(stream, &of_stream)) == CUDA_SUCCESS)
        device = ct_context_device((uintptr_t)of_stream);
    if (device == CT_NO_DEVICE_ORDINAL)
        (void)ct_context_current(&context, &device);
    return device;
}

// The pool of an allocation: its handle, 0 if that is not known, and what is known of it, or NULL.
struct source {
    uint64_t handle;
    struct pool *pool;
};

// cuMemAllocAsync allocates from the current pool of the stream's device (cuda.h).
static struct source find_current_pool(CUstream stream) {
    const struct ct_driver *driver = ct_driver();
    const int device = find_stream_device(stream);
    CUmemoryPool pool;
    if (device == CT_NO_DEVICE_ORDINAL || !driver->device_pool ||
        CT_ASK(driver->device_pool(&pool, device)) != CUDA_SUCCESS)
        return (struct source){0};
    struct pool *const p = add_pool((uintptr_t)pool, device, CT_SPACE_DEVICE);
    return (struct source){p ? (uintptr_t)pool : 0, p};
}

// A pool that the program did not create: a device's default one (JAX, TensorFlow and RMM ask for
// it), if not another process's.
static struct pool *find_default_pool(uint64_t handle) {
    const struct ct_driver *driver = ct_driver();
    int devices = 0;
    CUmemoryPool pool;
    if (!driver->default_pool || !driver->device_count || CT_ASK(driver->device_count(&devices)))
        return NULL;
    for (int d = 0; d < devices; d++)
        if (!CT_ASK(driver->default_pool(&pool, d)) && (uintptr_t)pool == handle)
            return add_pool(handle, d, CT_SPACE_DEVICE);
    return NULL;
}

static struct source find_given_pool(uint64_t handle) {
    struct pool *const p = find_pool(handle);
    return (struct source){handle, p ? p : find_default_pool(handle)};
}

static void alloc_exit(struct ct_hook_call *call, CUresult r, const CUdeviceptr *dptr, size_t bytes,
                       uint64_t stream, struct source from) {
    struct ct_event *e = &call->event;
    struct pool *const p = from.pool;
    if (r == CUDA_SUCCESS)
        CT_SET(e, ptr, *dptr);
    CT_SET(e, bytes, bytes);
    CT_SET(e, stream, stream);
    CT_SET(e, flags, CT_FLAG_ASYNC);
    if (from.handle)
        CT_SET(e, pool, from.handle);
    if (p && atomic_load(&p->device) != CT_NO_DEVICE_ORDINAL)
        CT_SET(e, device, atomic_load(&p->device));
    CT_SET(e, space, p ? (uint32_t)atomic_load(&p->space) : CT_SPACE_DEVICE);
    mark_dirty(p);
    // What the pools hold explains a failed allocation.
    if (r != CUDA_SUCCESS)
        sample_dirty_pools(call);
    else
        sample_pool_if_due(call, p);
    ct_hook_alloc_exit(call, r);
}

// In a capture the address belongs to the graph, and has memory only while the graph runs.
static void captured_alloc_exit(struct ct_hook_call *call, CUresult r, const CUdeviceptr *dptr,
                                size_t bytes, uint64_t stream) {
    struct ct_event *e = &call->event;
    const int device = find_stream_device((CUstream)(uintptr_t)stream);
    CT_SET(e, op, CT_OP_GRAPH_ALLOC);
    if (device != CT_NO_DEVICE_ORDINAL)
        CT_SET(e, device, device);
    if (r == CUDA_SUCCESS)
        CT_SET(e, ptr, *dptr);
    CT_SET(e, bytes, bytes);
    CT_SET(e, stream, stream);
    CT_SET(e, space, CT_SPACE_DEVICE);
    CT_SET(e, flags, CT_FLAG_CAPTURED | CT_FLAG_ASYNC);
    ct_hook_alloc_exit(call, r);
}

#define ON_ALLOC_ASYNC(symbol, PTSZ, params, args, source)                           \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) {                  \
        struct ct_hook_call call;                                                    \
        if (!ct_hook_enter_timed(&call, CT_ID_##symbol, CT_OP_ALLOC))                \
            return real args;                                                        \
        const int captures = ct_stream_is_capturing(hStream, PTSZ);                  \
        const CUresult r = real args;                                                \
        if (captures)                                                                \
            captured_alloc_exit(&call, r, dptr, bytesize, stream_id(hStream, PTSZ)); \
        else                                                                         \
            alloc_exit(&call, r, dptr, bytesize, stream_id(hStream, PTSZ), source);  \
        return r;                                                                    \
    }
#define ON_ALLOC_FROM_CURRENT(symbol, PTSZ)                                               \
    ON_ALLOC_ASYNC(symbol, PTSZ, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream), \
                   (dptr, bytesize, hStream), find_current_pool(hStream))
#define ON_ALLOC_FROM_POOL(symbol, PTSZ)                                                       \
    ON_ALLOC_ASYNC(symbol, PTSZ,                                                               \
                   (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream), \
                   (dptr, bytesize, pool, hStream), find_given_pool((uintptr_t)pool))
ON_ALLOC_FROM_CURRENT(cuMemAllocAsync, 0)
ON_ALLOC_FROM_CURRENT(cuMemAllocAsync_ptsz, 1)
ON_ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, 0)
ON_ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, 1)

// Every pool may have shrunk afterwards: to find the pool of an address would cost more than the
// samples of pools that have not changed.
#define ON_FREE_ASYNC(symbol, PTSZ)                                                              \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUdeviceptr dptr, CUstream hStream) {          \
        struct ct_hook_call call;                                                                \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_FREE))                                   \
            return real(dptr, hStream);                                                          \
        const int captures = ct_stream_is_capturing(hStream, PTSZ);                              \
        if (captures)                                                                            \
            CT_SET(&call.event, op, CT_OP_GRAPH_FREE);                                           \
        CT_SET(&call.event, ptr, dptr);                                                          \
        CT_SET(&call.event, stream, stream_id(hStream, PTSZ));                                   \
        CT_SET(&call.event, flags, captures ? CT_FLAG_ASYNC | CT_FLAG_CAPTURED : CT_FLAG_ASYNC); \
        ct_hook_free_enter(&call);                                                               \
        const CUresult r = real(dptr, hStream);                                                  \
        if (!captures)                                                                           \
            mark_all_dirty();                                                                    \
        ct_hook_free_exit(&call, r);                                                             \
        return r;                                                                                \
    }
ON_FREE_ASYNC(cuMemFreeAsync, 0)
ON_FREE_ASYNC(cuMemFreeAsync_ptsz, 1)

// ---- pools ----------------------------------------------------------------------------------

static enum ct_space pool_space(const CUmemPoolProps *props) {
#if CUDA_VERSION >= 13000
    if (props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CT_SPACE_MANAGED;
#endif
    return props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? CT_SPACE_DEVICE : CT_SPACE_HOST;
}

CUresult ct_on_cuMemPoolCreate(ct_fn_cuMemPoolCreate *real, CUmemoryPool *pool,
                               const CUmemPoolProps *poolProps) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemPoolCreate, CT_OP_POOL_CREATE))
        return real(pool, poolProps);
    const CUresult r = real(pool, poolProps);
    if (poolProps) {
        const enum ct_space space = pool_space(poolProps);
        const int device = space == CT_SPACE_DEVICE ? poolProps->location.id : CT_NO_DEVICE_ORDINAL;
        CT_SET(&call.event, space, space);
        if (device != CT_NO_DEVICE_ORDINAL)
            CT_SET(&call.event, device, device);
        CT_SET(&call.event, bytes, poolProps->maxSize);
        if (r == CUDA_SUCCESS)
            add_pool((uintptr_t)*pool, device, space);
    }
    if (r == CUDA_SUCCESS)
        CT_SET(&call.event, pool, (uintptr_t)*pool);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemPoolDestroy(ct_fn_cuMemPoolDestroy *real, CUmemoryPool pool) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemPoolDestroy, CT_OP_POOL_DESTROY))
        return real(pool);
    CT_SET(&call.event, pool, (uintptr_t)pool);
    ct_hook_free_enter(&call);
    // Before the call: a new pool may get this handle as soon as the driver has destroyed the pool.
    if (!ct_pass_is_second())
        remove_pool((uintptr_t)pool);
    const CUresult r = real(pool);
    ct_hook_free_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemPoolTrimTo(ct_fn_cuMemPoolTrimTo *real, CUmemoryPool pool,
                               size_t minBytesToKeep) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemPoolTrimTo, CT_OP_POOL_TRIM))
        return real(pool, minBytesToKeep);
    CT_SET(&call.event, pool, (uintptr_t)pool);
    CT_SET(&call.event, bytes, minBytesToKeep);
    ct_hook_free_enter(&call);
    const CUresult r = real(pool, minBytesToKeep);
    mark_dirty(find_pool((uintptr_t)pool));
    sample_dirty_pools(&call);
    ct_hook_free_exit(&call, r);
    return r;
}

// A new release threshold shows in the samples that follow.
CUresult ct_on_cuMemPoolSetAttribute(ct_fn_cuMemPoolSetAttribute *real, CUmemoryPool pool,
                                     CUmemPool_attribute attr, void *value) {
    const CUresult r = real(pool, attr, value);
    mark_dirty(find_pool((uintptr_t)pool));
    return r;
}

// ---- synchronizations: no events of their own -----------------------------------------------

static void synchronize_exit(struct ct_hook_call *call) {
    sample_dirty_pools(call);
    ct_hook_leave(call);
}

CUresult ct_on_cuCtxSynchronize(ct_fn_cuCtxSynchronize *real) {
    struct ct_hook_call call;
    const CUresult r = real();
    if (ct_hook_enter(&call, CT_ID_cuCtxSynchronize, CT_OP_POOL_SAMPLE))
        synchronize_exit(&call);
    return r;
}

#define ON_SYNCHRONIZE(symbol, TYPE)                                 \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, TYPE what) {       \
        struct ct_hook_call call;                                    \
        const CUresult r = real(what);                               \
        if (ct_hook_enter(&call, CT_ID_##symbol, CT_OP_POOL_SAMPLE)) \
            synchronize_exit(&call);                                 \
        return r;                                                    \
    }
#if CUDA_VERSION >= 13000
ON_SYNCHRONIZE(cuCtxSynchronize_v2, CUcontext)
#endif
ON_SYNCHRONIZE(cuStreamSynchronize, CUstream)
ON_SYNCHRONIZE(cuStreamSynchronize_ptsz, CUstream)
ON_SYNCHRONIZE(cuEventSynchronize, CUevent)
