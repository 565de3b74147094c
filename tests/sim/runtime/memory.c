// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's memory: device, managed, host, copies, IPC, external and graphics.
#include "runtime.h"

#include <stddef.h>
#include <string.h>

#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))

// ---- device -------------------------------------------------------------------------------------

cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size) {
    RETURN_IF_NO_CONTEXT;
    if (!devPtr)
        return simrt_done(CUDA_ERROR_INVALID_VALUE);
    *devPtr = NULL;
    if (!size)
        return cudaSuccess;
    return simrt_done(CALL(cuMemAlloc, 3020, (CUdeviceptr *)devPtr, size));
}

cudaError_t CUDARTAPI cudaFree(void *devPtr) {
    RETURN_IF_NO_CONTEXT;
    return devPtr ? simrt_done(CALL(cuMemFree, 3020, ADDRESS(devPtr))) : cudaSuccess;
}

WITH_CONTEXT(cudaMallocPitch, (void **devPtr, size_t *pitch, size_t width, size_t height),
             CALL(cuMemAllocPitch, 3020, (CUdeviceptr *)devPtr, pitch, width, height, 4))

cudaError_t CUDARTAPI cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent) {
    RETURN_IF_NO_CONTEXT;
    CUdeviceptr p = 0;
    CUresult result = CALL(cuMemAllocPitch, 3020, &p, &pitchedDevPtr->pitch, extent.width,
                           extent.height * extent.depth, 4);
    pitchedDevPtr->ptr = (void *)(uintptr_t)p;
    pitchedDevPtr->xsize = extent.width;
    pitchedDevPtr->ysize = extent.height;
    return simrt_done(result);
}

WITH_CONTEXT(cudaMallocManaged, (void **devPtr, size_t size, unsigned int flags),
             CALL(cuMemAllocManaged, 6000, (CUdeviceptr *)devPtr, size, flags))
WITH_CONTEXT(cudaMemGetInfo, (size_t * free, size_t *total), CALL(cuMemGetInfo, 3020, free, total))

cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                               const void *ptr) {
    RETURN_IF_NO_CONTEXT;
    unsigned type = 0, managed = 0;
    int device = -2;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &managed, &device};
    CUresult result = CALL(cuPointerGetAttributes, 7000, 3, names, values, ADDRESS(ptr));
    // CUDA 12's struct ends here. CUDA 13 has appended reserved words, which are left alone.
    memset(attributes, 0, offsetof(struct cudaPointerAttributes, hostPointer) + sizeof(void *));
    attributes->device = device;
    attributes->type = managed                        ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                       : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                      : cudaMemoryTypeUnregistered;
    attributes->devicePointer = type ? (void *)(uintptr_t)ptr : NULL;
    attributes->hostPointer =
        type == CU_MEMORYTYPE_DEVICE && !managed ? NULL : (void *)(uintptr_t)ptr;
    return simrt_done(result);
}

#if CUDART_VERSION >= 13000
static CUmemLocation location(struct cudaMemLocation l) {
    CUmemLocation out;
    memset(&out, 0, sizeof out);
    out.type = (CUmemLocationType)l.type;
    out.id = l.id;
    return out;
}

BOTH(cudaMemPrefetchAsync,
     (const void *p, size_t count, struct cudaMemLocation l, unsigned flags, cudaStream_t s),
     CALL_PTSZ(pt, cuMemPrefetchAsync, 12020, 12020, ADDRESS(p), count, location(l), flags, s))
WITH_CONTEXT(cudaMemAdvise,
             (const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
              struct cudaMemLocation l),
             CALL(cuMemAdvise, 12020, ADDRESS(devPtr), count, (CUmem_advise)advice, location(l)))
BOTH(cudaMemPrefetchBatchAsync,
     (void **p, size_t *sizes, size_t count, struct cudaMemLocation *l, size_t *index, size_t n,
      unsigned long long flags, cudaStream_t s),
     CALL_PTSZ(pt, cuMemPrefetchBatchAsync, 13000, 13000, (CUdeviceptr *)p, sizes, count,
               (CUmemLocation *)(void *)l, index, n, flags, s))
BOTH(cudaMemDiscardBatchAsync,
     (void **p, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t s),
     CALL_PTSZ(pt, cuMemDiscardBatchAsync, 13000, 13000, (CUdeviceptr *)p, sizes, count, flags, s))
BOTH(cudaMemDiscardAndPrefetchBatchAsync,
     (void **p, size_t *sizes, size_t count, struct cudaMemLocation *l, size_t *index, size_t n,
      unsigned long long flags, cudaStream_t s),
     CALL_PTSZ(pt, cuMemDiscardAndPrefetchBatchAsync, 13000, 13000, (CUdeviceptr *)p, sizes, count,
               (CUmemLocation *)(void *)l, index, n, flags, s))
#endif

// ---- host ---------------------------------------------------------------------------------------

WITH_CONTEXT(cudaMallocHost, (void **ptr, size_t size), CALL(cuMemHostAlloc, 2020, ptr, size, 0))
WITH_CONTEXT(cudaHostAlloc, (void **pHost, size_t size, unsigned int flags),
             CALL(cuMemHostAlloc, 2020, pHost, size, flags))

cudaError_t CUDARTAPI cudaFreeHost(void *ptr) {
    RETURN_IF_NO_CONTEXT;
    return ptr ? simrt_done(CALL(cuMemFreeHost, 2000, ptr)) : cudaSuccess;
}

WITH_CONTEXT(cudaHostRegister, (void *ptr, size_t size, unsigned int flags),
             CALL(cuMemHostRegister, 6050, ptr, size, flags))
WITH_CONTEXT(cudaHostUnregister, (void *ptr), CALL(cuMemHostUnregister, 4000, ptr))
WITH_CONTEXT(cudaHostGetDevicePointer, (void **pDevice, void *pHost, unsigned int flags),
             CALL(cuMemHostGetDevicePointer, 3020, (CUdeviceptr *)pDevice, pHost, flags))
WITH_CONTEXT(cudaHostGetFlags, (unsigned int *pFlags, void *pHost),
             CALL(cuMemHostGetFlags, 2030, pFlags, pHost))

// ---- copies and fills ---------------------------------------------------------------------------

static CUresult copy(bool pt, void *to, const void *from, size_t count, enum cudaMemcpyKind kind) {
    switch (kind) {
    case cudaMemcpyHostToHost:
        memmove(to, from, count);
        return CUDA_SUCCESS;
    case cudaMemcpyHostToDevice:
        return CALL_PTDS(pt, cuMemcpyHtoD, 3020, 7000, ADDRESS(to), from, count);
    case cudaMemcpyDeviceToHost:
        return CALL_PTDS(pt, cuMemcpyDtoH, 3020, 7000, to, ADDRESS(from), count);
    case cudaMemcpyDeviceToDevice:
        return CALL_PTDS(pt, cuMemcpyDtoD, 3020, 7000, ADDRESS(to), ADDRESS(from), count);
    default:
        return CALL_PTDS(pt, cuMemcpy, 4000, 7000, ADDRESS(to), ADDRESS(from), count);
    }
}

WITH_CONTEXT(cudaMemcpy, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
             copy(false, dst, src, count, kind))
WITH_CONTEXT(cudaMemcpy_ptds, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
             copy(true, dst, src, count, kind))

static cudaError_t do_cudaMemcpyAsync(bool pt, void *to, const void *from, size_t count,
                                      enum cudaMemcpyKind kind, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL_PTSZ(pt, cuMemcpyAsync, 4000, 7000, ADDRESS(to), ADDRESS(from), count, s));
}
TWO(cudaMemcpyAsync,
    (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t s), dst, src,
    count, kind, s)

static CUmemorytype side_of(enum cudaMemcpyKind kind, bool to) {
    switch (kind) {
    case cudaMemcpyHostToHost:
        return CU_MEMORYTYPE_HOST;
    case cudaMemcpyHostToDevice:
        return to ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    case cudaMemcpyDeviceToHost:
        return to ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    case cudaMemcpyDeviceToDevice:
        return CU_MEMORYTYPE_DEVICE;
    default:
        return CU_MEMORYTYPE_UNIFIED;
    }
}

struct rows {
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, height;
    enum cudaMemcpyKind kind;
};

static CUDA_MEMCPY2D to_driver(const struct rows *r) {
    return (CUDA_MEMCPY2D){
        .srcMemoryType = side_of(r->kind, false),
        .srcHost = r->from,
        .srcDevice = ADDRESS(r->from),
        .srcPitch = r->from_pitch,
        .dstMemoryType = side_of(r->kind, true),
        .dstHost = r->to,
        .dstDevice = ADDRESS(r->to),
        .dstPitch = r->to_pitch,
        .WidthInBytes = r->width,
        .Height = r->height,
    };
}

static cudaError_t copy_rows(bool pt, const struct rows *r) {
    RETURN_IF_NO_CONTEXT;
    CUDA_MEMCPY2D m = to_driver(r);
    return simrt_done(CALL_PTDS(pt, cuMemcpy2DUnaligned, 3020, 7000, &m));
}

cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
                                   size_t width, size_t height, enum cudaMemcpyKind kind) {
    return copy_rows(false, &(struct rows){dst, src, dpitch, spitch, width, height, kind});
}

cudaError_t CUDARTAPI cudaMemcpy2D_ptds(void *dst, size_t dpitch, const void *src, size_t spitch,
                                        size_t width, size_t height, enum cudaMemcpyKind kind) {
    return copy_rows(true, &(struct rows){dst, src, dpitch, spitch, width, height, kind});
}

static cudaError_t do_cudaMemcpy2DAsync(bool pt, const struct rows *r, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    CUDA_MEMCPY2D m = to_driver(r);
    return simrt_done(CALL_PTSZ(pt, cuMemcpy2DAsync, 3020, 7000, &m, s));
}
TWO(cudaMemcpy2DAsync,
    (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
     enum cudaMemcpyKind kind, cudaStream_t stream),
    (&(struct rows){dst, src, dpitch, spitch, width, height, kind}), stream)

// Between devices: unified addresses say which.
cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                          size_t count, cudaStream_t stream) {
    return do_cudaMemcpyAsync(false, dst, src, count, cudaMemcpyDefault, stream);
}

static cudaError_t fill(bool pt, void *p, int value, size_t count) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL_PTDS(pt, cuMemsetD8, 3020, 7000, ADDRESS(p), (unsigned char)value, count));
}

cudaError_t CUDARTAPI cudaMemset(void *devPtr, int value, size_t count) {
    return fill(false, devPtr, value, count);
}

cudaError_t CUDARTAPI cudaMemset_ptds(void *devPtr, int value, size_t count) {
    return fill(true, devPtr, value, count);
}

BOTH(cudaMemsetAsync, (void *p, int value, size_t count, cudaStream_t s),
     CALL_PTSZ(pt, cuMemsetD8Async, 3020, 7000, ADDRESS(p), (unsigned char)value, count, s))

// ---- IPC ----------------------------------------------------------------------------------------

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "the same bytes");

WITH_CONTEXT(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *devPtr),
             CALL(cuIpcGetMemHandle, 4010, (CUipcMemHandle *)(void *)handle, ADDRESS(devPtr)))

cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle,
                                           unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    CUipcMemHandle same;
    memcpy(&same, &handle, sizeof same);
    return simrt_done(CALL(cuIpcOpenMemHandle, 11000, (CUdeviceptr *)devPtr, same, flags));
}

WITH_CONTEXT(cudaIpcCloseMemHandle, (void *devPtr),
             CALL(cuIpcCloseMemHandle, 4010, ADDRESS(devPtr)))

// ---- memory of other APIs ----------------------------------------

cudaError_t CUDARTAPI cudaImportExternalMemory(cudaExternalMemory_t *out,
                                               const struct cudaExternalMemoryHandleDesc *d) {
    RETURN_IF_NO_CONTEXT;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC same;
    memset(&same, 0, sizeof same);
    same.type = (CUexternalMemoryHandleType)d->type;
    same.handle.fd = d->handle.fd;
    same.size = d->size;
    same.flags = d->flags;
    return simrt_done(CALL(cuImportExternalMemory, 10000, (CUexternalMemory *)out, &same));
}

cudaError_t CUDARTAPI cudaExternalMemoryGetMappedBuffer(
    void **devPtr, cudaExternalMemory_t extMem, const struct cudaExternalMemoryBufferDesc *d) {
    RETURN_IF_NO_CONTEXT;
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC same;
    memset(&same, 0, sizeof same);
    same.offset = d->offset;
    same.size = d->size;
    same.flags = d->flags;
    return simrt_done(CALL(cuExternalMemoryGetMappedBuffer, 10000, (CUdeviceptr *)devPtr,
                           (CUexternalMemory)extMem, &same));
}

WITH_CONTEXT(cudaDestroyExternalMemory, (cudaExternalMemory_t extMem),
             CALL(cuDestroyExternalMemory, 10000, (CUexternalMemory)extMem))
WITH_CONTEXT(cudaGraphicsMapResources,
             (int count, cudaGraphicsResource_t *resources, cudaStream_t stream),
             CALL(cuGraphicsMapResources, 3000, (unsigned)count, (CUgraphicsResource *)resources,
                  stream))
WITH_CONTEXT(cudaGraphicsUnmapResources,
             (int count, cudaGraphicsResource_t *resources, cudaStream_t stream),
             CALL(cuGraphicsUnmapResources, 3000, (unsigned)count, (CUgraphicsResource *)resources,
                  stream))
WITH_CONTEXT(cudaGraphicsResourceGetMappedPointer,
             (void **devPtr, size_t *size, cudaGraphicsResource_t resource),
             CALL(cuGraphicsResourceGetMappedPointer, 3020, (CUdeviceptr *)devPtr, size,
                  (CUgraphicsResource)resource))
WITH_CONTEXT(cudaGraphicsUnregisterResource, (cudaGraphicsResource_t resource),
             CALL(cuGraphicsUnregisterResource, 3000, (CUgraphicsResource)resource))
