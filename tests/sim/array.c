// SPDX-License-Identifier: Apache-2.0
// CUDA arrays: opaque memory, padded by row, that has a handle and no address. Sparse arrays have
// no memory until some is mapped into them.
#include "array.h"
#include "stream.h"
#include "vmm.h"

#include <stdlib.h>
#include <string.h>

// ---- sizes --------------------------------------------------------------------------------------

static unsigned element_size(const CUDA_ARRAY3D_DESCRIPTOR *s) {
    switch ((int)s->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return s->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2 * s->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4 * s->NumChannels;
    default:
        return 0;
    }
}

bool sim_array_bad(const CUDA_ARRAY3D_DESCRIPTOR *s) {
    bool channels = s->NumChannels == 1 || s->NumChannels == 2 || s->NumChannels == 4;
    return !s->Width || !channels || !element_size(s) || s->Width > 1 << 20 ||
           s->Height > 1 << 20 || s->Depth > 1 << 16;
}

static uint64_t at_least_1(uint64_t n) {
    return n ? n : 1;
}

static uint64_t plain_bytes(const CUDA_ARRAY3D_DESCRIPTOR *s) {
    return (uint64_t)element_size(s) * s->Width * at_least_1(s->Height) * at_least_1(s->Depth);
}

static uint64_t padded_bytes(const CUDA_ARRAY3D_DESCRIPTOR *s) {
    uint64_t row =
        sim_round_up((uint64_t)element_size(s) * s->Width, at_least_1(sim_param.array_pad));
    return row * at_least_1(s->Height) * at_least_1(s->Depth);
}

static CUDA_ARRAY3D_DESCRIPTOR level_shape(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level) {
    CUDA_ARRAY3D_DESCRIPTOR s = *shape;
    s.Width = at_least_1(s.Width >> level);
    s.Height = s.Height ? at_least_1(s.Height >> level) : 0;
    s.Depth = s.Depth ? at_least_1(s.Depth >> level) : 0;
    return s;
}

static uint64_t total(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels,
                      uint64_t (*bytes)(const CUDA_ARRAY3D_DESCRIPTOR *)) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < levels; i++) {
        CUDA_ARRAY3D_DESCRIPTOR s = level_shape(shape, i);
        sum += bytes(&s);
    }
    return sum;
}

uint64_t sim_mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels) {
    return total(shape, levels, plain_bytes);
}

// Both kinds get their memory later, so they ask the device for none.
static bool without_memory(const CUDA_ARRAY3D_DESCRIPTOR *s) {
    return s->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
}

static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *s) {
    uint64_t n = s->Width > s->Height ? s->Width : s->Height;
    unsigned levels = 1;
    if (s->Depth > n)
        n = s->Depth;
    while (n >>= 1)
        levels++;
    return levels;
}

// ---- creating -----------------------------------------------------------------------------------

static struct sim_array *new_array(enum sim_kind kind, struct sim_context *ctx,
                                   const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels) {
    struct sim_array *a = sim_object_new(sizeof *a, kind, ctx, ctx->o.device);
    a->shape = *shape;
    a->levels = levels;
    a->level = calloc(levels, sizeof(struct sim_array *));
    if (!a->level)
        abort();
    return a;
}

struct sim_array *sim_mipmap_new(struct sim_context *ctx, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                                 unsigned levels) {
    return new_array(SIM_MIPMAP, ctx, shape, levels);
}

static void create(struct sim_call *c, enum sim_kind kind, void **out,
                   const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels) {
    struct sim_range *memory = NULL;
    sim_set_bytes(c, without_memory(shape) ? 0 : total(shape, levels, plain_bytes));
    if (!c->result)
        c->result = sim_capture_unsafe();
    SIM_REFUSE_IF(c, !out || sim_array_bad(shape), CUDA_ERROR_INVALID_VALUE);
    if (!c->result && !without_memory(shape)) {
        memory = sim_memory_take(c->ctx->o.device, total(shape, levels, padded_bytes), &c->result);
        if (memory)
            memory->kind = SIM_RANGE_ARRAY; // the array ends it, nothing else can
    }
    if (!c->result) {
        struct sim_array *a = new_array(kind, sim_owner(c->ctx), shape, levels);
        a->memory = memory;
        *out = a;
        sim_set_object(c, a);
    }
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    SIM_BEGIN("alloc", CONTEXT);
    if (pAllocateArray) {
        CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = pAllocateArray->Width,
                                         .Height = pAllocateArray->Height,
                                         .Format = pAllocateArray->Format,
                                         .NumChannels = pAllocateArray->NumChannels};
        create(&c, SIM_ARRAY, (void **)pHandle, &shape, 1);
    } else if (!c.result) {
        c.result = CUDA_ERROR_INVALID_VALUE;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray *pHandle,
                                    const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    SIM_BEGIN("alloc", CONTEXT);
    if (pAllocateArray)
        create(&c, SIM_ARRAY, (void **)pHandle, pAllocateArray, 1);
    else if (!c.result)
        c.result = CUDA_ERROR_INVALID_VALUE;
    return sim_end(&c);
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                        const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                        unsigned int numMipmapLevels) {
    SIM_BEGIN("alloc", CONTEXT);
    if (pMipmappedArrayDesc && numMipmapLevels) {
        unsigned most = most_levels(pMipmappedArrayDesc);
        create(&c, SIM_MIPMAP, (void **)pHandle, pMipmappedArrayDesc,
               numMipmapLevels < most ? numMipmapLevels : most);
    } else if (!c.result) {
        c.result = CUDA_ERROR_INVALID_VALUE;
    }
    return sim_end(&c);
}

// ---- destroying ---------------------------------------------------------------------------------

static void unbind(struct sim_tile **link) {
    struct sim_tile *t = *link;
    *link = t->next;
    t->physical->mappings--;
    sim_physical_release(t->physical);
    free(t);
}

static void end(struct sim_array *a) {
    for (unsigned i = 0; i < a->levels; i++)
        if (a->level[i]) {
            free(a->level[i]->level);
            sim_object_delete(a->level[i]);
        }
    while (a->tiles)
        unbind(&a->tiles);
    if (a->memory)
        sim_memory_give(a->memory);
    free(a->level);
    sim_object_delete(a);
}

static CUresult destroy(const char *api, void *handle, enum sim_kind kind) {
    SIM_BEGIN_AS(api, "free", CONTEXT);
    struct sim_array *a = sim_object_find(handle, kind);
    sim_set_object(&c, handle);
    if (a)
        sim_set_device(&c, a->o.device);
    if (!c.result)
        c.result = sim_capture_unsafe();
    SIM_REFUSE_IF(&c, !a || a->parent, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result)
        end(a);
    return sim_end(&c);
}

SIM_FORWARD(cuArrayDestroy, (CUarray hArray), destroy, hArray, SIM_ARRAY)
SIM_FORWARD(cuMipmappedArrayDestroy, (CUmipmappedArray hMipmappedArray), destroy, hMipmappedArray,
            SIM_MIPMAP)

static struct sim_array *ending;

static void find_one(void *object) {
    struct sim_array *a = object;
    if (!a->parent)
        ending = a;
}

// One at a time: the end of an array deletes its levels, which are objects of the same kind.
static void end_all(struct sim_context *ctx, enum sim_kind kind) {
    do {
        ending = NULL;
        sim_object_each(ctx, kind, find_one);
        if (ending)
            end(ending);
    } while (ending);
}

void sim_array_end_context(struct sim_context *ctx) {
    end_all(ctx, SIM_MIPMAP);
    end_all(ctx, SIM_ARRAY);
}

// ---- questions ----------------------------------------------------------------------------------

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                          unsigned int level) {
    SIM_BEGIN(NULL, CONTEXT);
    struct sim_array *a = sim_object_find(hMipmappedArray, SIM_MIPMAP);
    SIM_REFUSE_IF(&c, !a, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(&c, !pLevelArray || level >= a->levels, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        if (!a->level[level]) {
            CUDA_ARRAY3D_DESCRIPTOR s = level_shape(&a->shape, level);
            a->level[level] = new_array(SIM_ARRAY, a->o.ctx, &s, 1);
            a->level[level]->parent = a;
        }
        *pLevelArray = (CUarray)a->level[level];
    }
    return sim_end(&c);
}

// Begins a question to an array of either kind.
static struct sim_array *ask(struct sim_call *c, const char *api, const void *out,
                             const void *handle, enum sim_kind kind) {
    sim_begin(c, api, NULL, SIM_NEED_INIT);
    struct sim_array *a = sim_object_find(handle, kind);
    SIM_REFUSE_IF(c, !a, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(c, !out, CUDA_ERROR_INVALID_VALUE);
    return a;
}

static CUresult requirements(const char *api, CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                             const void *handle, enum sim_kind kind) {
    struct sim_call c;
    struct sim_array *a = ask(&c, api, out, handle, kind);
    SIM_REFUSE_IF(&c, !(a->shape.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING), CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        memset(out, 0, sizeof *out);
        out->alignment = 64 << 10;
        out->size = sim_round_up(total(&a->shape, a->levels, padded_bytes), 64 << 10);
    }
    return sim_end(&c);
}

SIM_FORWARD(cuArrayGetMemoryRequirements,
            (CUDA_ARRAY_MEMORY_REQUIREMENTS * memoryRequirements, CUarray array, CUdevice device),
            requirements, memoryRequirements, array, SIM_ARRAY)
SIM_FORWARD(cuMipmappedArrayGetMemoryRequirements,
            (CUDA_ARRAY_MEMORY_REQUIREMENTS * memoryRequirements, CUmipmappedArray mipmap,
             CUdevice device),
            requirements, memoryRequirements, mipmap, SIM_MIPMAP)

static CUresult sparse(const char *api, CUDA_ARRAY_SPARSE_PROPERTIES *out, const void *handle,
                       enum sim_kind kind) {
    struct sim_call c;
    struct sim_array *a = ask(&c, api, out, handle, kind);
    SIM_REFUSE_IF(&c, !(a->shape.Flags & CUDA_ARRAY3D_SPARSE), CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        memset(out, 0, sizeof *out);
        out->tileExtent.width = out->tileExtent.height = 128;
        out->tileExtent.depth = 1;
    }
    return sim_end(&c);
}

SIM_FORWARD(cuArrayGetSparseProperties,
            (CUDA_ARRAY_SPARSE_PROPERTIES * sparseProperties, CUarray array), sparse,
            sparseProperties, array, SIM_ARRAY)
SIM_FORWARD(cuMipmappedArrayGetSparseProperties,
            (CUDA_ARRAY_SPARSE_PROPERTIES * sparseProperties, CUmipmappedArray mipmap), sparse,
            sparseProperties, mipmap, SIM_MIPMAP)

// Only planar video formats have planes, and those cannot be created here.
CUresult CUDAAPI cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx) {
    struct sim_call c;
    ask(&c, __func__, pPlaneArray, hArray, SIM_ARRAY);
    if (!c.result)
        c.result = CUDA_ERROR_INVALID_VALUE;
    return sim_end(&c);
}

CUresult CUDAAPI cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
    struct sim_call c;
    struct sim_array *a = ask(&c, __func__, pArrayDescriptor, hArray, SIM_ARRAY);
    if (!c.result)
        *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){a->shape.Width, a->shape.Height,
                                                    a->shape.Format, a->shape.NumChannels};
    return sim_end(&c);
}

CUresult CUDAAPI cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor,
                                           CUarray hArray) {
    struct sim_call c;
    struct sim_array *a = ask(&c, __func__, pArrayDescriptor, hArray, SIM_ARRAY);
    if (!c.result)
        *pArrayDescriptor = a->shape;
    return sim_end(&c);
}

// ---- memory of sparse arrays --------------------------------------------------------------------

static struct sim_array *target(const CUarrayMapInfo *m) {
    struct sim_array *a = NULL;
    if (m->resourceType == CU_RESOURCE_TYPE_ARRAY)
        a = sim_object_find(m->resource.array, SIM_ARRAY);
    else if (m->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        a = sim_object_find(m->resource.mipmap, SIM_MIPMAP);
    return a && !a->parent && without_memory(&a->shape) ? a : NULL;
}

static uint64_t map_bytes(const CUarrayMapInfo *m) {
    struct sim_array *a = target(m);
    if (m->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
        return m->subresource.miptail.size;
    return a ? (uint64_t)element_size(&a->shape) * m->subresource.sparseLevel.extentWidth *
                   at_least_1(m->subresource.sparseLevel.extentHeight) *
                   at_least_1(m->subresource.sparseLevel.extentDepth)
             : 0;
}

static struct sim_tile **find_tile(struct sim_array *a, const CUarrayMapInfo *m) {
    struct sim_tile **link = &a->tiles;
    while (*link && ((*link)->where.subresourceType != m->subresourceType ||
                     memcmp(&(*link)->where.subresource, &m->subresource, sizeof m->subresource)))
        link = &(*link)->next;
    return link;
}

static CUresult check_tile(const CUarrayMapInfo *m) {
    if (!target(m))
        return CUDA_ERROR_INVALID_VALUE;
    if (m->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
        return CUDA_SUCCESS;
    bool ok = m->memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
              m->memHandleType == CU_MEM_HANDLE_TYPE_GENERIC &&
              sim_physical_find(m->memHandle.memHandle);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void do_tile(const CUarrayMapInfo *m) {
    struct sim_array *a = target(m);
    struct sim_tile **link = find_tile(a, m);
    if (*link)
        unbind(link);
    if (m->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
        return;
    struct sim_tile *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->where = *m;
    t->physical = sim_physical_find(m->memHandle.memHandle);
    t->physical->mappings++;
    t->next = a->tiles;
    a->tiles = t;
}

static CUresult map_array(const char *api, const CUarrayMapInfo *list, unsigned count,
                          CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, "map", stream);
    if (!c.result)
        sim_stream_use(s, &c.result);
    SIM_REFUSE_IF(&c, !list || !count, CUDA_ERROR_INVALID_VALUE);
    uint64_t bytes = 0;
    for (unsigned i = 0; list && i < count; i++) {
        if (!c.result)
            c.result = check_tile(&list[i]);
        bytes += map_bytes(&list[i]);
    }
    sim_set_bytes(&c, bytes);
    for (unsigned i = 0; !c.result && i < count; i++)
        do_tile(&list[i]);
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuMemMapArrayAsync,
                 (CUarrayMapInfo * mapInfoList, unsigned int count, CUstream hStream), map_array,
                 mapInfoList, count, hStream)
