// SPDX-License-Identifier: Apache-2.0
// Managed memory: an address at once, device memory only when it is prefetched to a device (or at
// once with SIM_MANAGED=1). And what an address is, for cuPointerGetAttribute.
#include "stream.h"

#include <string.h>

static void evict(struct sim_range *r) {
    if (r->charged)
        sim_discharge(r->resident, r->charged);
    r->charged = 0;
    r->resident = -1;
}

// A device without room for it leaves it where it is, and the prefetch still succeeds.
static void move_to(struct sim_range *r, int device) {
    if (r->charged && r->resident == device)
        return;
    evict(r);
    if (device >= 0 && sim_charge(device, r->space)) {
        r->charged = r->space;
        r->resident = device;
    }
}

static CUresult allocate(struct sim_call *c, CUdeviceptr *dptr, size_t bytes, unsigned flags) {
    uint64_t base;
    CUresult result = sim_capture_unsafe();
    if (result)
        return result;
    if (!dptr || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t space = sim_round_up(bytes < 1ull << 40 ? bytes : 1ull << 40, sim_param.chunk);
    int device = c->ctx->o.device;
    if (sim_param.managed_at_once && !sim_charge(device, space))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes >= 1ull << 40 || !sim_space_take(space, 0, &base)) {
        if (sim_param.managed_at_once)
            sim_discharge(device, space);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_range *r = sim_range_new(SIM_RANGE_MANAGED, base, bytes);
    r->space = space;
    r->device = device;
    r->charged = sim_param.managed_at_once ? space : 0;
    r->resident = device;
    r->ctx = sim_owner(c->ctx);
    *dptr = base;
    sim_set_ptr(c, base);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
    SIM_BEGIN("alloc", CONTEXT);
    sim_set_bytes(&c, bytesize);
    if (!c.result)
        c.result = allocate(&c, dptr, bytesize, flags);
    return sim_end(&c);
}

static struct sim_range *managed(uint64_t base, uint64_t size) {
    struct sim_range *r = sim_range_at(base);
    bool inside = r && r->kind == SIM_RANGE_MANAGED && size && size <= r->size &&
                  base - r->base <= r->size - size;
    return inside ? r : NULL;
}

static CUresult prefetch(const char *api, CUdeviceptr p, size_t count, int device,
                         CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream);
    struct sim_range *r = managed(p, count);
    if (!c.result)
        sim_stream_use(s, &c.result);
    SIM_REFUSE_IF(&c, !r, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, device != CU_DEVICE_CPU && !sim_device_valid(device),
                  CUDA_ERROR_INVALID_DEVICE);
    if (!c.result)
        move_to(r, device);
    return sim_end(&c);
}

static int device_of(CUmemLocation location) {
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

SIM_FORWARD_PTSZ(cuMemPrefetchAsync,
                 (CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream), prefetch,
                 devPtr, count, dstDevice, hStream)
SIM_FORWARD_PTSZ(cuMemPrefetchAsync_v2,
                 (CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                  CUstream hStream),
                 prefetch, devPtr, count, device_of(location), hStream)

#if CUDA_VERSION >= 13000
struct batch {
    CUdeviceptr *pointers;
    size_t *sizes, count;
    CUmemLocation *locations;
    size_t *indices, location_count;
    bool discard;
};

static const CUmemLocation *location_of(const struct batch *b, size_t i) {
    size_t at = 0;
    while (at + 1 < b->location_count && b->indices[at + 1] <= i)
        at++;
    return b->location_count ? &b->locations[at] : NULL;
}

static CUresult run_batch(const char *api, const struct batch *b, CUstream stream) {
    struct sim_call c;
    struct sim_stream *s = sim_stream_begin(&c, api, NULL, stream);
    if (!c.result)
        sim_stream_use(s, &c.result);
    SIM_REFUSE_IF(&c, !b->pointers || !b->sizes || !b->count, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; !c.result && i < b->count; i++)
        if (!managed(b->pointers[i], b->sizes[i]))
            c.result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !c.result && i < b->count; i++) {
        struct sim_range *r = managed(b->pointers[i], b->sizes[i]);
        const CUmemLocation *l = location_of(b, i);
        if (b->discard)
            evict(r);
        if (l)
            move_to(r, device_of(*l));
    }
    return sim_end(&c);
}

#define BATCH CUdeviceptr *dptrs, size_t *sizes, size_t count
#define PLACES CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs

SIM_FORWARD_PTSZ(cuMemPrefetchBatchAsync,
                 (BATCH, PLACES, unsigned long long flags, CUstream hStream), run_batch,
                 &(struct batch){dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                 numPrefetchLocs, false},
                 hStream)
SIM_FORWARD_PTSZ(cuMemDiscardBatchAsync, (BATCH, unsigned long long flags, CUstream hStream),
                 run_batch, &(struct batch){dptrs, sizes, count, NULL, NULL, 0, true}, hStream)
SIM_FORWARD_PTSZ(cuMemDiscardAndPrefetchBatchAsync,
                 (BATCH, PLACES, unsigned long long flags, CUstream hStream), run_batch,
                 &(struct batch){dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                 numPrefetchLocs, true},
                 hStream)
#endif

// ---- hints: checked and forgotten ---------------------------------------------------------------

static CUresult advise(const char *api, CUdeviceptr p, size_t count) {
    SIM_BEGIN_AS(api, NULL, INIT);
    SIM_REFUSE_IF(&c, !managed(p, count), CUDA_ERROR_INVALID_VALUE);
    return sim_end(&c);
}

SIM_FORWARD(cuMemAdvise, (CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device),
            advise, devPtr, count)
SIM_FORWARD(cuMemAdvise_v2,
            (CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location), advise,
            devPtr, count)

static CUresult attach(const char *api, CUstream stream, CUdeviceptr p) {
    struct sim_call c;
    sim_stream_begin(&c, api, NULL, stream);
    SIM_REFUSE_IF(&c, !managed(p, 1), CUDA_ERROR_INVALID_VALUE);
    return sim_end(&c);
}

SIM_FORWARD_PTSZ(cuStreamAttachMemAsync,
                 (CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags), attach,
                 hStream, dptr)
