// SPDX-License-Identifier: Apache-2.0
// Memory pools: reserved in large blocks, given back at a synchronise, a trim or the pool's end.
#include "pool.h"
#include "stream.h"
#include "vmm.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN 512ull

// ---- blocks -------------------------------------------------------------------------------------

static bool empty(const struct sim_block *b) {
    return b->free.n == 1 && b->free.v[0].size == b->size;
}

static void drop_block(struct sim_pool *pool, struct sim_block *b) {
    struct sim_block **link = &pool->blocks;
    while (*link != b)
        link = &(*link)->next;
    *link = b->next;
    sim_space_give(b->base, b->size);
    if (pool->charges)
        sim_discharge(pool->o.device, b->size);
    pool->reserved -= b->size;
    free(b->free.v);
    free(b);
}

// Gives back whole unused blocks as long as at least `keep` bytes stay reserved.
static void trim(struct sim_pool *pool, uint64_t keep) {
    for (struct sim_block *b = pool->blocks, *next; b; b = next) {
        next = b->next;
        if (pool->reserved <= keep)
            break;
        if (empty(b) && pool->reserved - b->size >= keep)
            drop_block(pool, b);
    }
}

static struct sim_block *reserve_block(struct sim_pool *pool, uint64_t size) {
    if (pool->props.maxSize && pool->reserved + size > pool->props.maxSize)
        return NULL;
    if (pool->charges && !sim_charge(pool->o.device, size))
        return NULL;
    struct sim_block *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    if (!sim_space_take(size, 0, &b->base)) {
        if (pool->charges)
            sim_discharge(pool->o.device, size);
        free(b);
        return NULL;
    }
    b->size = size;
    sim_extents_give(&b->free, b->base, size);
    b->next = pool->blocks;
    pool->blocks = b;
    pool->reserved += size;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return b;
}

static struct sim_block *grow(struct sim_pool *pool, uint64_t bytes) {
    uint64_t least = sim_round_up(bytes, sim_param.chunk);
    uint64_t usual = least > sim_param.pool_grow ? least : sim_param.pool_grow;
    struct sim_block *b = reserve_block(pool, usual);
    if (!b) {
        trim(pool, 0);
        b = reserve_block(pool, usual);
    }
    return b ? b : reserve_block(pool, least);
}

// ---- pools --------------------------------------------------------------------------------------

struct sim_pool *sim_pool_new(const CUmemPoolProps *props, int device) {
    struct sim_pool *pool = sim_object_new(sizeof *pool, SIM_POOL, NULL, device);
    pool->props = *props;
    pool->charges = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                    props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED;
    for (int i = 0; i < 3; i++)
        pool->reuse[i] = 1;
    return pool;
}

struct sim_pool *sim_pool_of_device(int device, bool current) {
    struct sim_device *d = &sim_devices[device];
    if (!d->default_pool) {
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
        props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        props.location.id = device;
        d->default_pool = sim_pool_new(&props, device);
        d->default_pool->by_default = true;
    }
    if (!d->current_pool)
        d->current_pool = d->default_pool;
    return current ? d->current_pool : d->default_pool;
}

struct sim_pool *sim_pool_find(CUmemoryPool handle) {
    struct sim_pool *pool = sim_object_find(handle, SIM_POOL);
    return pool && !pool->dying ? pool : NULL;
}

static void end_pool(struct sim_pool *pool) {
    while (pool->blocks)
        drop_block(pool, pool->blocks);
    sim_fd_close_all(&pool->descriptors);
    sim_object_delete(pool);
}

struct sim_range *sim_pool_take(struct sim_pool *pool, uint64_t bytes, CUresult *why_not) {
    uint64_t base, size = sim_round_up(bytes, ALIGN);
    struct sim_block *b = pool->blocks;
    *why_not = CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes > (1ull << 40))
        return NULL;
    while (b && !sim_extents_take(&b->free, size, ALIGN, &base))
        b = b->next;
    if (!b && (!(b = grow(pool, size)) || !sim_extents_take(&b->free, size, ALIGN, &base)))
        return NULL;
    struct sim_range *r = sim_range_new(SIM_RANGE_POOL, base, bytes);
    r->device = pool->o.device;
    r->pool = pool;
    r->owner = b;
    pool->live++;
    pool->used += size;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    *why_not = CUDA_SUCCESS;
    return r;
}

CUresult sim_pool_free(struct sim_range *r) {
    struct sim_pool *pool = r->pool;
    struct sim_block *b = r->owner;
    uint64_t size = sim_round_up(r->size, ALIGN);
    sim_export_delete(r->export_key);
    sim_extents_give(&b->free, r->base, size);
    pool->used -= size;
    pool->live--;
    sim_range_delete(r);
    if (pool->dying && pool->live == 0)
        end_pool(pool);
    return CUDA_SUCCESS;
}

static int synchronising;

static void synchronise_pool(void *object) {
    struct sim_pool *pool = object;
    if (pool->o.device == synchronising)
        trim(pool, pool->threshold);
}

void sim_pool_synchronise(int device) {
    synchronising = device;
    sim_object_each(NULL, SIM_POOL, synchronise_pool);
}

void sim_pool_reset_device(int device) {
    for (struct sim_range *r = sim_ranges, *next; r; r = next) {
        next = r->next;
        if (r->kind == SIM_RANGE_POOL && r->device == device)
            sim_pool_free(r);
    }
    synchronising = device;
    sim_object_each(NULL, SIM_POOL, synchronise_pool);
}

// ---- creating, destroying, trimming -------------------------------------------------------------

static CUresult check_props(const CUmemPoolProps *props) {
    CUmemLocationType type = props->location.type;
    if (type == CU_MEM_LOCATION_TYPE_DEVICE)
        return sim_device_valid(props->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if ((int)props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && (int)props->allocType != 2)
        return CUDA_ERROR_INVALID_VALUE;
    return (int)type >= 1 && (int)type <= 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    SIM_BEGIN("pool-create", INIT);
    if (poolProps)
        sim_set_bytes(&c, poolProps->maxSize);
    SIM_REFUSE_IF(&c, !pool || !poolProps, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = check_props(poolProps);
    if (!c.result) {
        bool device = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
        struct sim_pool *p = sim_pool_new(poolProps, device ? poolProps->location.id : 0);
        *pool = (CUmemoryPool)p;
        sim_set_pool(&c, p);
        sim_set_device(&c, p->o.device);
    }
    return sim_end(&c);
}

// Begins a call on a pool.
static struct sim_pool *begin(struct sim_call *c, const char *api, const char *op,
                              CUmemoryPool handle) {
    sim_begin(c, api, op, SIM_NEED_INIT);
    sim_set_pool(c, handle);
    struct sim_pool *pool = sim_pool_find(handle);
    if (pool)
        sim_set_device(c, pool->o.device);
    else if (!c->result)
        c->result = CUDA_ERROR_INVALID_VALUE;
    return pool;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) {
    struct sim_call c;
    struct sim_pool *pool = begin(&c, __func__, "pool-destroy", handle);
    SIM_REFUSE_IF(&c, pool->by_default, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        struct sim_device *d = &sim_devices[pool->o.device];
        if (d->current_pool == pool)
            d->current_pool = d->default_pool;
        pool->dying = true;
        if (pool->live == 0)
            end_pool(pool);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep) {
    struct sim_call c;
    struct sim_pool *pool = begin(&c, __func__, "pool-trim", handle);
    sim_set_bytes(&c, minBytesToKeep);
    if (!c.result)
        trim(pool, minBytesToKeep);
    return sim_end(&c);
}

// ---- attributes ---------------------------------------------------------------------------------

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value) {
    struct sim_call c;
    struct sim_pool *pool = begin(&c, __func__, NULL, handle);
    SIM_REFUSE_IF(&c, !value, CUDA_ERROR_INVALID_VALUE);
    if (c.result)
        return sim_end(&c);
    switch ((int)attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        break;
    default:
        c.result = CUDA_ERROR_INVALID_VALUE;
    }
    return sim_end(&c);
}

// The high-water marks can be set to zero only, which sets them to what is current.
static CUresult reset_high(uint64_t *high, uint64_t current, const void *value) {
    if (*(const cuuint64_t *)value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *high = current;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value) {
    struct sim_call c;
    struct sim_pool *pool = begin(&c, __func__, NULL, handle);
    SIM_REFUSE_IF(&c, !value, CUDA_ERROR_INVALID_VALUE);
    if (c.result)
        return sim_end(&c);
    switch ((int)attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(cuuint64_t *)value;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        c.result = reset_high(&pool->reserved_high, pool->reserved, value);
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        c.result = reset_high(&pool->used_high, pool->used, value);
        break;
    default:
        c.result = CUDA_ERROR_INVALID_VALUE;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count) {
    struct sim_call c;
    begin(&c, __func__, "access", handle);
    SIM_REFUSE_IF(&c, !map || !count, CUDA_ERROR_INVALID_VALUE);
    return sim_end(&c);
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
                                    CUmemLocation *location) {
    struct sim_call c;
    struct sim_pool *pool = begin(&c, __func__, NULL, memPool);
    SIM_REFUSE_IF(&c, !flags || !location, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *flags = location->id == pool->o.device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sim_end(&c);
}

// ---- which pool a device uses -------------------------------------------------------------------

static CUresult get_pool(const char *api, CUmemoryPool *out, CUdevice dev, bool current) {
    SIM_BEGIN_AS(api, NULL, INIT);
    SIM_REFUSE_IF(&c, !out, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !sim_device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    if (!c.result)
        *out = (CUmemoryPool)sim_pool_of_device(dev, current);
    return sim_end(&c);
}

SIM_FORWARD(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool_out, CUdevice dev), get_pool, pool_out,
            dev, false)
SIM_FORWARD(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice dev), get_pool, pool, dev, true)

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle) {
    struct sim_call c;
    struct sim_pool *pool = begin(&c, __func__, NULL, handle);
    SIM_REFUSE_IF(&c, !sim_device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    SIM_REFUSE_IF(&c, pool->o.device != dev || pool->imported, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        sim_pool_of_device(dev, false);
        sim_devices[dev].current_pool = pool;
    }
    return sim_end(&c);
}

#if CUDA_VERSION >= 13000
// Of the kinds of 13.0: per location type and allocation type one default and one current pool.
static struct sim_pool *other_pools[8][4], *other_current[8][4];

static struct sim_pool *pool_of(const CUmemLocation *location, CUmemAllocationType type,
                                struct sim_pool ***current) {
    unsigned l = (unsigned)location->type, t = (unsigned)type;
    if (l >= 8 || t >= 4 || !l || !t)
        return NULL;
    bool device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (device && !sim_device_valid(location->id))
        return NULL;
    if (device && type == CU_MEM_ALLOCATION_TYPE_PINNED) {
        struct sim_pool *pool = sim_pool_of_device(location->id, false);
        *current = &sim_devices[location->id].current_pool;
        return pool;
    }
    if (!other_pools[l][t]) {
        CUmemPoolProps props = {.allocType = type, .location = *location};
        other_pools[l][t] = sim_pool_new(&props, device ? location->id : 0);
        other_pools[l][t]->by_default = true;
        other_current[l][t] = other_pools[l][t];
    }
    *current = &other_current[l][t];
    return other_pools[l][t];
}

static CUresult get_mem_pool(const char *api, CUmemoryPool *out, const CUmemLocation *location,
                             CUmemAllocationType type, bool want_current) {
    struct sim_call c;
    struct sim_pool *pool, **current;
    sim_begin(&c, api, NULL, SIM_NEED_INIT);
    SIM_REFUSE_IF(&c, !out || !location || !(pool = pool_of(location, type, &current)),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        if (want_current && !sim_object_find(*current, SIM_POOL))
            *current = pool; // the one that was set has been destroyed
        *out = (CUmemoryPool)(want_current ? *current : pool);
    }
    return sim_end(&c);
}

SIM_FORWARD(cuMemGetDefaultMemPool,
            (CUmemoryPool * pool_out, CUmemLocation *location, CUmemAllocationType type),
            get_mem_pool, pool_out, location, type, false)
SIM_FORWARD(cuMemGetMemPool,
            (CUmemoryPool * pool, CUmemLocation *location, CUmemAllocationType type), get_mem_pool,
            pool, location, type, true)

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                                 CUmemoryPool handle) {
    struct sim_call c;
    struct sim_pool **current, *pool = begin(&c, __func__, NULL, handle);
    SIM_REFUSE_IF(&c, !location || !pool_of(location, type, &current), CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *current = pool;
    return sim_end(&c);
}
#endif

// ---- stream-ordered allocation ------------------------------------------------------------------

static CUresult allocate(struct sim_call *c, struct sim_stream *s, CUdeviceptr *dptr, size_t bytes,
                         struct sim_pool *pool) {
    CUresult result = CUDA_SUCCESS;
    if (!dptr || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_capture *capture = sim_stream_use(s, &result);
    if (result)
        return result;
    if (capture) {
        c->op = "graph-alloc";
        result = sim_graph_capture_alloc(capture->graph, pool->o.device, bytes, dptr);
    } else {
        struct sim_range *r = sim_pool_take(pool, bytes, &result);
        if (r)
            *dptr = r->base;
    }
    if (!result)
        sim_set_ptr(c, *dptr);
    return result;
}

static CUresult alloc_async(const char *api, CUdeviceptr *dptr, size_t bytes, CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, "alloc", stream);
    sim_set_bytes(&c, bytes);
    if (s && s->capture)
        c.op = "graph-alloc";
    if (!c.result)
        c.result = allocate(&c, s, dptr, bytes, sim_pool_of_device(s->o.device, true));
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
                 alloc_async, dptr, bytesize, hStream)

static CUresult alloc_from_pool(const char *api, CUdeviceptr *dptr, size_t bytes,
                                CUmemoryPool handle, CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, "alloc", stream);
    struct sim_pool *pool = sim_pool_find(handle);
    sim_set_bytes(&c, bytes);
    sim_set_pool(&c, handle);
    if (pool)
        sim_set_device(&c, pool->o.device);
    if (s && s->capture)
        c.op = "graph-alloc";
    SIM_REFUSE_IF(&c, !pool || pool->imported, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = allocate(&c, s, dptr, bytes, pool);
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuMemAllocFromPoolAsync,
                 (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
                 alloc_from_pool, dptr, bytesize, pool, hStream)

static CUresult release(struct sim_call *c, struct sim_stream *s, CUdeviceptr dptr) {
    CUresult result = CUDA_SUCCESS;
    struct sim_capture *capture = sim_stream_use(s, &result);
    if (result)
        return result;
    if (capture)
        return sim_graph_capture_free(capture->graph, dptr);
    struct sim_range *r = sim_range_at(dptr);
    if (!r || r->base != dptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (r->kind != SIM_RANGE_POOL && r->kind != SIM_RANGE_GRAPH && r->kind != SIM_RANGE_POOL_IMPORT)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_memory_free(dptr, c);
}

static CUresult free_async(const char *api, CUdeviceptr dptr, CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, "free", stream);
    sim_set_ptr(&c, dptr);
    if (s && s->capture)
        c.op = "graph-free";
    if (!c.result)
        c.result = release(&c, s, dptr);
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuMemFreeAsync, (CUdeviceptr dptr, CUstream hStream), free_async, dptr, hStream)
