// SPDX-License-Identifier: Apache-2.0
// Device memory: cuMemAlloc and its kin. Small allocations share chunks, large ones take whole
// chunks; what the device loses is counted by the chunk.
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN 512ull

struct chunk {
    uint64_t base;
    int device;
    struct sim_extents free;
    struct chunk *next;
};

static struct chunk *chunks;

// ---- chunks -----------------------------------------------------------------------------------

static struct chunk *new_chunk(int device) {
    uint64_t base;
    if (!sim_charge(device, sim_param.chunk))
        return NULL;
    if (!sim_space_take(sim_param.chunk, 0, &base)) {
        sim_discharge(device, sim_param.chunk);
        return NULL;
    }
    struct chunk *k = calloc(1, sizeof *k);
    if (!k)
        abort();
    k->base = base;
    k->device = device;
    sim_extents_give(&k->free, base, sim_param.chunk);
    k->next = chunks;
    chunks = k;
    return k;
}

static void drop_chunk(struct chunk *k) {
    struct chunk **link = &chunks;
    while (*link != k)
        link = &(*link)->next;
    *link = k->next;
    sim_space_give(k->base, sim_param.chunk);
    sim_discharge(k->device, sim_param.chunk);
    free(k->free.v);
    free(k);
}

static struct sim_range *take_small(int device, uint64_t bytes) {
    uint64_t base, size = sim_round_up(bytes, ALIGN);
    struct chunk *k = chunks;
    while (k && (k->device != device || !sim_extents_take(&k->free, size, ALIGN, &base)))
        k = k->next;
    if (!k) {
        k = new_chunk(device);
        if (!k || !sim_extents_take(&k->free, size, ALIGN, &base))
            return NULL;
    }
    struct sim_range *r = sim_range_new(SIM_RANGE_DEVICE, base, bytes);
    r->owner = k;
    return r;
}

static struct sim_range *take_large(int device, uint64_t bytes) {
    uint64_t base, size = sim_round_up(bytes, sim_param.chunk);
    if (!sim_charge(device, size))
        return NULL;
    if (!sim_space_take(size, 0, &base)) {
        sim_discharge(device, size);
        return NULL;
    }
    struct sim_range *r = sim_range_new(SIM_RANGE_DEVICE, base, bytes);
    r->space = r->charged = size;
    return r;
}

struct sim_range *sim_memory_take(int device, uint64_t bytes, CUresult *why_not) {
    struct sim_range *r = NULL;
    *why_not = CUDA_SUCCESS;
    if (bytes <= sim_param.memory[device])
        r = bytes <= sim_param.chunk / 2 ? take_small(device, bytes) : take_large(device, bytes);
    if (!r)
        *why_not = CUDA_ERROR_OUT_OF_MEMORY;
    else
        r->device = device;
    return r;
}

void sim_memory_give(struct sim_range *r) {
    struct chunk *k = r->owner;
    sim_export_delete(r->export_key);
    if (r->space) {
        sim_space_give(r->base, r->space);
        sim_discharge(r->device, r->charged);
    } else {
        sim_extents_give(&k->free, r->base, sim_round_up(r->size, ALIGN));
        if (k->free.n == 1 && k->free.v[0].size == sim_param.chunk)
            drop_chunk(k);
    }
    sim_range_delete(r);
}

// ---- allocation -------------------------------------------------------------------------------

static CUresult allocate(struct sim_call *c, CUdeviceptr *dptr, uint64_t bytes) {
    CUresult result = sim_capture_unsafe();
    if (result)
        return result;
    if (!dptr || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_range *r = sim_memory_take(c->ctx->o.device, bytes, &result);
    if (!r)
        return result;
    r->ctx = sim_owner(c->ctx);
    *dptr = r->base;
    sim_set_ptr(c, r->base);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    static bool first = true;
    if (sim_param.reentrant && first && !sim_depth) {
        first = false;
        sim_reentrant_call();
    }
    SIM_BEGIN("alloc", CONTEXT);
    sim_set_bytes(&c, bytesize);
    if (!c.result)
        c.result = allocate(&c, dptr, bytesize);
    return sim_end(&c);
}

static bool bad_pitch(size_t width, size_t height, unsigned element) {
    return !width || !height || (element != 4 && element != 8 && element != 16) ||
           width > SIZE_MAX / 2 || height > SIZE_MAX / sim_round_up(width, ALIGN);
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                                    size_t Height, unsigned int ElementSizeBytes) {
    SIM_BEGIN("alloc", CONTEXT);
    sim_set_bytes(&c, (uint64_t)WidthInBytes * Height);
    SIM_REFUSE_IF(&c, !pPitch || bad_pitch(WidthInBytes, Height, ElementSizeBytes),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        size_t pitch = sim_round_up(WidthInBytes, ALIGN);
        c.result = allocate(&c, dptr, pitch * Height);
        if (!c.result) {
            *pPitch = pitch;
            sim_set_bytes(&c, pitch * Height);
        }
    }
    return sim_end(&c);
}

// ---- freeing ----------------------------------------------------------------------------------

static CUresult free_managed(struct sim_range *r) {
    if (r->charged)
        sim_discharge(r->resident, r->charged);
    sim_space_give(r->base, r->space);
    sim_range_delete(r);
    return CUDA_SUCCESS;
}

CUresult sim_memory_free(uint64_t address, struct sim_call *c) {
    if (!address)
        return CUDA_SUCCESS;
    struct sim_range *r = sim_range_at(address);
    if (!r || r->base != address)
        return CUDA_ERROR_INVALID_VALUE;
    if (c && r->device >= 0)
        sim_set_device(c, r->device);
    switch (r->kind) {
    case SIM_RANGE_DEVICE:
        sim_memory_give(r);
        return CUDA_SUCCESS;
    case SIM_RANGE_MANAGED:
        return free_managed(r);
    case SIM_RANGE_POOL:
        return sim_pool_free(r);
    case SIM_RANGE_GRAPH:
        return sim_graph_free(r);
    case SIM_RANGE_EXTERNAL:
    case SIM_RANGE_POOL_IMPORT:
        sim_space_give(r->base, r->space);
        sim_range_delete(r);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr) {
    SIM_BEGIN("free", CONTEXT);
    sim_set_ptr(&c, dptr);
    if (!c.result)
        c.result = sim_capture_unsafe();
    if (!c.result)
        c.result = sim_memory_free(dptr, &c);
    return sim_end(&c);
}

void sim_memory_end_context(struct sim_context *ctx) {
    for (struct sim_range *r = sim_ranges, *next; r; r = next) {
        next = r->next;
        if (r->ctx != ctx)
            continue;
        switch (r->kind) {
        case SIM_RANGE_HOST:
        case SIM_RANGE_REGISTERED:
        case SIM_RANGE_GLOBAL:
            break; // host.c and module.c end these
        case SIM_RANGE_IPC:
            sim_space_give(r->base, r->space);
            sim_range_delete(r);
            break;
        default:
            sim_memory_free(r->base, NULL);
        }
    }
}

// ---- questions ----------------------------------------------------------------------------------

// A tracer must never ask this inside a capture: the ledger says so when somebody does.
static void count_violation(const struct sim_call *c) {
    struct sim_call v = *c;
    v.op = "violation";
    sim_ledger_write(&v);
}

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free, size_t *total) {
    SIM_BEGIN(NULL, CONTEXT);
    if (sim_capture_running())
        count_violation(&c);
    if (!c.result) {
        int device = c.ctx->o.device;
        sim_vmm_collect();
        uint64_t all = sim_param.memory[device], used = sim_used(device);
        if (free)
            *free = used < all ? all - used : 0;
        if (total)
            *total = all;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    SIM_BEGIN(NULL, CONTEXT);
    struct sim_range *r = c.result ? NULL : sim_range_at(dptr);
    SIM_REFUSE_IF(&c, !r || r->kind == SIM_RANGE_REGISTERED || r->kind == SIM_RANGE_ARRAY,
                  CUDA_ERROR_NOT_FOUND);
    if (!c.result) {
        if (pbase)
            *pbase = r->base;
        if (psize)
            *psize = r->size;
    }
    return sim_end(&c);
}
