// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's stream-ordered memory and pools.
#include "runtime.h"

#include <string.h>

#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))

BOTH(cudaMallocAsync, (void **p, size_t size, cudaStream_t s),
     CALL_PTSZ(pt, cuMemAllocAsync, 11020, 11020, (CUdeviceptr *)p, size, s))
BOTH(cudaMallocFromPoolAsync, (void **p, size_t size, cudaMemPool_t pool, cudaStream_t s),
     CALL_PTSZ(pt, cuMemAllocFromPoolAsync, 11020, 11020, (CUdeviceptr *)p, size, pool, s))
BOTH(cudaFreeAsync, (void *p, cudaStream_t s),
     CALL_PTSZ(pt, cuMemFreeAsync, 11020, 11020, ADDRESS(p), s))

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

WITH_CONTEXT(cudaMemPoolDestroy, (cudaMemPool_t memPool), CALL(cuMemPoolDestroy, 11020, memPool))
WITH_CONTEXT(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep),
             CALL(cuMemPoolTrimTo, 11020, memPool, minBytesToKeep))
WITH_CONTEXT(cudaMemPoolSetAttribute,
             (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
             CALL(cuMemPoolSetAttribute, 11020, memPool, (CUmemPool_attribute)attr, value))
WITH_CONTEXT(cudaMemPoolGetAttribute,
             (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
             CALL(cuMemPoolGetAttribute, 11020, memPool, (CUmemPool_attribute)attr, value))

_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "the same layout");

WITH_CONTEXT(cudaMemPoolSetAccess,
             (cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count),
             CALL(cuMemPoolSetAccess, 11020, memPool,
                  (const CUmemAccessDesc *)(const void *)descList, count))
WITH_CONTEXT(cudaMemPoolGetAccess,
             (enum cudaMemAccessFlags * flags, cudaMemPool_t memPool,
              struct cudaMemLocation *location),
             CALL(cuMemPoolGetAccess, 11020, (CUmemAccess_flags *)(void *)flags, memPool,
                  (CUmemLocation *)(void *)location))
WITH_CONTEXT(cudaMemPoolExportToShareableHandle,
             (void *shareableHandle, cudaMemPool_t memPool, enum cudaMemAllocationHandleType type,
              unsigned int flags),
             CALL(cuMemPoolExportToShareableHandle, 11020, shareableHandle, memPool,
                  (CUmemAllocationHandleType)type, flags))
WITH_CONTEXT(cudaMemPoolImportFromShareableHandle,
             (cudaMemPool_t * memPool, void *shareableHandle, enum cudaMemAllocationHandleType type,
              unsigned int flags),
             CALL(cuMemPoolImportFromShareableHandle, 11020, memPool, shareableHandle,
                  (CUmemAllocationHandleType)type, flags))
WITH_CONTEXT(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData * exportData, void *ptr),
             CALL(cuMemPoolExportPointer, 11020, (CUmemPoolPtrExportData *)(void *)exportData,
                  ADDRESS(ptr)))
WITH_CONTEXT(cudaMemPoolImportPointer,
             (void **ptr, cudaMemPool_t memPool, struct cudaMemPoolPtrExportData *exportData),
             CALL(cuMemPoolImportPointer, 11020, (CUdeviceptr *)ptr, memPool,
                  (CUmemPoolPtrExportData *)(void *)exportData))
WITH_CONTEXT(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * memPool, int device),
             CALL(cuDeviceGetDefaultMemPool, 11020, memPool, device))
WITH_CONTEXT(cudaDeviceGetMemPool, (cudaMemPool_t * memPool, int device),
             CALL(cuDeviceGetMemPool, 11020, memPool, device))
WITH_CONTEXT(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool),
             CALL(cuDeviceSetMemPool, 11020, device, memPool))

#if CUDART_VERSION >= 13000
WITH_CONTEXT(cudaMemGetDefaultMemPool,
             (cudaMemPool_t * memPool, struct cudaMemLocation *location,
              enum cudaMemAllocationType type),
             CALL(cuMemGetDefaultMemPool, 13000, memPool, (CUmemLocation *)(void *)location,
                  (CUmemAllocationType)type))
WITH_CONTEXT(cudaMemGetMemPool,
             (cudaMemPool_t * memPool, struct cudaMemLocation *location,
              enum cudaMemAllocationType type),
             CALL(cuMemGetMemPool, 13000, memPool, (CUmemLocation *)(void *)location,
                  (CUmemAllocationType)type))
WITH_CONTEXT(cudaMemSetMemPool,
             (struct cudaMemLocation * location, enum cudaMemAllocationType type,
              cudaMemPool_t memPool),
             CALL(cuMemSetMemPool, 13000, (CUmemLocation *)(void *)location,
                  (CUmemAllocationType)type, memPool))
#endif
