// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's stream-ordered memory and pools.
#include "runtime.h"

#include <string.h>

#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))

static cudaError_t do_cudaMallocAsync(bool pt, void **p, size_t size, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuMemAllocAsync, 11020, 11020, (CUdeviceptr *)p, size, s));
}
TWO(cudaMallocAsync, (void **devPtr, size_t size, cudaStream_t hStream), devPtr, size, hStream)

static cudaError_t do_cudaMallocFromPoolAsync(bool pt, void **p, size_t size, cudaMemPool_t pool,
                                              cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL_PTSZ(pt, cuMemAllocFromPoolAsync, 11020, 11020, (CUdeviceptr *)p, size, pool, s));
}
TWO(cudaMallocFromPoolAsync, (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
    ptr, size, memPool, stream)

static cudaError_t do_cudaFreeAsync(bool pt, void *p, cudaStream_t s) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL_PTSZ(pt, cuMemFreeAsync, 11020, 11020, ADDRESS(p), s));
}
TWO(cudaFreeAsync, (void *devPtr, cudaStream_t hStream), devPtr, hStream)

// The properties have the driver's layout, but they are another type.
static CUmemPoolProps properties(const struct cudaMemPoolProps *p) {
    CUmemPoolProps same;
    memset(&same, 0, sizeof same);
    same.allocType = (CUmemAllocationType)p->allocType;
    same.handleTypes = (CUmemAllocationHandleType)p->handleTypes;
    same.location.type = (CUmemLocationType)p->location.type;
    same.location.id = p->location.id;
    same.maxSize = p->maxSize;
    return same;
}

cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *memPool,
                                        const struct cudaMemPoolProps *poolProps) {
    RETURN_IF_NO_CONTEXT;
    CUmemPoolProps same;
    if (!poolProps)
        return simrt_done(CUDA_ERROR_INVALID_VALUE);
    same = properties(poolProps);
    return simrt_done(CALL(cuMemPoolCreate, 11020, memPool, &same));
}

cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t memPool) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemPoolDestroy, 11020, memPool));
}

cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemPoolTrimTo, 11020, memPool, minBytesToKeep));
}

cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
                                              void *value) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL(cuMemPoolSetAttribute, 11020, memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
                                              void *value) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(
        CALL(cuMemPoolGetAttribute, 11020, memPool, (CUmemPool_attribute)attr, value));
}

_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "the same layout");

cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t memPool,
                                           const struct cudaMemAccessDesc *descList, size_t count) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemPoolSetAccess, 11020, memPool,
                           (const CUmemAccessDesc *)(const void *)descList, count));
}

cudaError_t CUDARTAPI cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
                                           struct cudaMemLocation *location) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemPoolGetAccess, 11020, (CUmemAccess_flags *)(void *)flags, memPool,
                           (CUmemLocation *)(void *)location));
}

cudaError_t CUDARTAPI cudaMemPoolExportToShareableHandle(void *shareableHandle,
                                                         cudaMemPool_t memPool,
                                                         enum cudaMemAllocationHandleType type,
                                                         unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemPoolExportToShareableHandle, 11020, shareableHandle, memPool,
                           (CUmemAllocationHandleType)type, flags));
}

cudaError_t CUDARTAPI cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool,
                                                           void *shareableHandle,
                                                           enum cudaMemAllocationHandleType type,
                                                           unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemPoolImportFromShareableHandle, 11020, memPool, shareableHandle,
                           (CUmemAllocationHandleType)type, flags));
}

cudaError_t CUDARTAPI cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData,
                                               void *ptr) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemPoolExportPointer, 11020,
                           (CUmemPoolPtrExportData *)(void *)exportData, ADDRESS(ptr)));
}

cudaError_t CUDARTAPI cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
                                               struct cudaMemPoolPtrExportData *exportData) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemPoolImportPointer, 11020, (CUdeviceptr *)ptr, memPool,
                           (CUmemPoolPtrExportData *)(void *)exportData));
}

cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuDeviceGetDefaultMemPool, 11020, memPool, device));
}

cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuDeviceGetMemPool, 11020, memPool, device));
}

cudaError_t CUDARTAPI cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuDeviceSetMemPool, 11020, device, memPool));
}

#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaMemGetDefaultMemPool(cudaMemPool_t *memPool,
                                               struct cudaMemLocation *location,
                                               enum cudaMemAllocationType type) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemGetDefaultMemPool, 13000, memPool,
                           (CUmemLocation *)(void *)location, (CUmemAllocationType)type));
}

cudaError_t CUDARTAPI cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                                        enum cudaMemAllocationType type) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemGetMemPool, 13000, memPool, (CUmemLocation *)(void *)location,
                           (CUmemAllocationType)type));
}

cudaError_t CUDARTAPI cudaMemSetMemPool(struct cudaMemLocation *location,
                                        enum cudaMemAllocationType type, cudaMemPool_t memPool) {
    RETURN_IF_NO_CONTEXT;
    return simrt_done(CALL(cuMemSetMemPool, 13000, (CUmemLocation *)(void *)location,
                           (CUmemAllocationType)type, memPool));
}
#endif
