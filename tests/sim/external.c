// SPDX-License-Identifier: Apache-2.0
// Memory of other APIs: imported by descriptor, or a registered graphics resource. Somebody else
// owns it, so it charges no device.
#include "array.h"
#include "stream.h"

#include <unistd.h>

struct external {
    struct sim_object o;
    uint64_t size;
};

// ---- external memory ----------------------------------------------------------------------------

static bool by_descriptor(CUexternalMemoryHandleType type) {
    return type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
}

CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *extMem_out,
                                        const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc) {
    SIM_BEGIN("import", CONTEXT);
    if (memHandleDesc)
        sim_set_bytes(&c, memHandleDesc->size);
    SIM_REFUSE_IF(&c, !extMem_out || !memHandleDesc || !memHandleDesc->size,
                  CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, by_descriptor(memHandleDesc->type) && memHandleDesc->handle.fd < 0,
                  CUDA_ERROR_INVALID_HANDLE);
    if (!c.result) {
        struct external *e = sim_object_new(sizeof *e, SIM_EXTERNAL, NULL, c.ctx->o.device);
        e->size = memHandleDesc->size;
        if (by_descriptor(memHandleDesc->type))
            close(memHandleDesc->handle.fd); // an import takes the descriptor over
        *extMem_out = (CUexternalMemory)e;
        sim_set_object(&c, e);
    }
    return sim_end(&c);
}

static struct external *begin(struct sim_call *c, const char *api, const char *op,
                              CUexternalMemory handle) {
    sim_begin(c, api, op, SIM_NEED_CONTEXT);
    sim_set_object(c, handle);
    struct external *e = sim_object_find(handle, SIM_EXTERNAL);
    SIM_REFUSE_IF(c, !e, CUDA_ERROR_INVALID_HANDLE);
    return e;
}

CUresult CUDAAPI
cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc) {
    struct sim_call c;
    struct external *e = begin(&c, __func__, "map", extMem);
    uint64_t base, space;
    if (bufferDesc) {
        sim_set_bytes(&c, bufferDesc->size);
        sim_set_offset(&c, bufferDesc->offset);
    }
    SIM_REFUSE_IF(&c,
                  !devPtr || !bufferDesc || !bufferDesc->size || bufferDesc->size > e->size ||
                      bufferDesc->offset > e->size - bufferDesc->size,
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        space = sim_round_up(bufferDesc->size, 2 << 20);
        if (!sim_space_take(space, 0, &base))
            c.result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!c.result) {
        struct sim_range *r = sim_range_new(SIM_RANGE_EXTERNAL, base, bufferDesc->size);
        r->space = space;
        r->device = e->o.device;
        r->ctx = sim_owner(c.ctx);
        *devPtr = base;
        sim_set_ptr(&c, base);
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray *mipmap, CUexternalMemory extMem,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc) {
    struct sim_call c;
    begin(&c, __func__, "map", extMem);
    if (mipmapDesc) {
        sim_set_bytes(&c, sim_mipmap_bytes(&mipmapDesc->arrayDesc, mipmapDesc->numLevels & 31));
        sim_set_offset(&c, mipmapDesc->offset);
    }
    SIM_REFUSE_IF(&c,
                  !mipmap || !mipmapDesc || !mipmapDesc->numLevels || mipmapDesc->numLevels > 31 ||
                      sim_array_bad(&mipmapDesc->arrayDesc),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *mipmap = (CUmipmappedArray)sim_mipmap_new(sim_owner(c.ctx), &mipmapDesc->arrayDesc,
                                                   mipmapDesc->numLevels);
    return sim_end(&c);
}

CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory extMem) {
    struct sim_call c;
    struct external *e = begin(&c, __func__, "release", extMem);
    if (!c.result)
        sim_object_delete(e);
    return sim_end(&c);
}

// ---- graphics -----------------------------------------------------------------------------------

#define BUFFER_SIZE (64 << 10) // of every simulated GL buffer

struct graphics {
    struct sim_object o;
    bool mapped;
    struct sim_range *range;
};

CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *out, unsigned buffer,
                                            unsigned flags) {
    SIM_BEGIN(NULL, CONTEXT);
    uint64_t base;
    SIM_REFUSE_IF(&c, !out, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !sim_space_take(BUFFER_SIZE, 0, &base), CUDA_ERROR_OUT_OF_MEMORY);
    if (!c.result) {
        struct graphics *g = sim_object_new(sizeof *g, SIM_GRAPHICS, NULL, c.ctx->o.device);
        g->range = sim_range_new(SIM_RANGE_EXTERNAL, base, BUFFER_SIZE);
        g->range->space = BUFFER_SIZE;
        g->range->device = c.ctx->o.device;
        *out = (CUgraphicsResource)g;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuGraphicsUnregisterResource(CUgraphicsResource resource) {
    SIM_BEGIN(NULL, CONTEXT);
    struct graphics *g = sim_object_find(resource, SIM_GRAPHICS);
    SIM_REFUSE_IF(&c, !g, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result) {
        sim_space_give(g->range->base, g->range->space);
        sim_range_delete(g->range);
        sim_object_delete(g);
    }
    return sim_end(&c);
}

static CUresult map_graphics(const char *api, unsigned count, CUgraphicsResource *resources,
                             CUstream stream, bool map) {
    struct sim_call c;
    sim_stream_begin(&c, api, map ? "map" : "unmap", stream);
    if (resources && count)
        sim_set_object(&c, resources[0]);
    SIM_REFUSE_IF(&c, !count || !resources, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; !c.result && i < count; i++) {
        struct graphics *g = sim_object_find(resources[i], SIM_GRAPHICS);
        if (!g)
            c.result = CUDA_ERROR_INVALID_HANDLE;
        else if (g->mapped == map)
            c.result = map ? CUDA_ERROR_ALREADY_MAPPED : CUDA_ERROR_NOT_MAPPED;
    }
    for (unsigned i = 0; !c.result && i < count; i++)
        ((struct graphics *)(void *)resources[i])->mapped = map;
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuGraphicsMapResources,
                 (unsigned int count, CUgraphicsResource *resources, CUstream hStream),
                 map_graphics, count, resources, hStream, true)
SIM_FORWARD_PTSZ(cuGraphicsUnmapResources,
                 (unsigned int count, CUgraphicsResource *resources, CUstream hStream),
                 map_graphics, count, resources, hStream, false)

CUresult CUDAAPI cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *pDevPtr, size_t *pSize,
                                                       CUgraphicsResource resource) {
    SIM_BEGIN(NULL, CONTEXT);
    struct graphics *g = sim_object_find(resource, SIM_GRAPHICS);
    SIM_REFUSE_IF(&c, !g, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(&c, !g->mapped, CUDA_ERROR_NOT_MAPPED);
    if (!c.result) {
        if (pDevPtr)
            *pDevPtr = g->range->base;
        if (pSize)
            *pSize = g->range->size;
    }
    return sim_end(&c);
}
