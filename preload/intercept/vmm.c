// SPDX-License-Identifier: Apache-2.0
// Hooks on virtual memory management and multicast objects.
//
// Memory belongs to its handle and lives until the last reference and the last mapping are
// released. The trace records each call; a replay (cutrace/model) finds the end of that life.
#define _GNU_SOURCE
#include "intercept/driver.h"
#include "intercept/hook_scope.h"
#include "intercept/stream.h"

static void set_location(struct ct_event *e, const CUmemLocation *location) {
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        CT_SET(e, space, CT_SPACE_DEVICE);
        CT_SET(e, device, location->id);
    } else {
        CT_SET(e, space, CT_SPACE_HOST);
    }
}

static void set_range(struct ct_event *e, CUdeviceptr ptr, size_t bytes) {
    CT_SET(e, ptr, ptr);
    CT_SET(e, bytes, bytes);
}

CUresult ct_on_cuMemAddressReserve(ct_fn_cuMemAddressReserve *real, CUdeviceptr *ptr, size_t size,
                                   size_t alignment, CUdeviceptr addr, unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemAddressReserve, CT_OP_RESERVE))
        return real(ptr, size, alignment, addr, flags);
    const CUresult r = real(ptr, size, alignment, addr, flags);
    if (r == CUDA_SUCCESS)
        CT_SET(&call.event, ptr, *ptr);
    CT_SET(&call.event, bytes, size);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemAddressFree(ct_fn_cuMemAddressFree *real, CUdeviceptr ptr, size_t size) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemAddressFree, CT_OP_UNRESERVE))
        return real(ptr, size);
    set_range(&call.event, ptr, size);
    ct_hook_free_enter(&call);
    const CUresult r = real(ptr, size);
    ct_hook_free_exit(&call, r);
    return r;
}

// cuMemCreate works without a current context (HAMi-core#172); the device is the requested one.
CUresult ct_on_cuMemCreate(ct_fn_cuMemCreate *real, CUmemGenericAllocationHandle *handle,
                           size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemCreate, CT_OP_CREATE))
        return real(handle, size, prop, flags);
    const CUresult r = real(handle, size, prop, flags);
    if (r == CUDA_SUCCESS)
        CT_SET(&call.event, handle, *handle);
    CT_SET(&call.event, bytes, size);
    if (prop)
        set_location(&call.event, &prop->location);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemRelease(ct_fn_cuMemRelease *real, CUmemGenericAllocationHandle handle) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemRelease, CT_OP_RELEASE))
        return real(handle);
    CT_SET(&call.event, handle, handle);
    ct_hook_free_enter(&call);
    const CUresult r = real(handle);
    ct_hook_free_exit(&call, r);
    return r;
}

// The call returns the handle that the address is mapped to, with one more reference.
CUresult ct_on_cuMemRetainAllocationHandle(ct_fn_cuMemRetainAllocationHandle *real,
                                           CUmemGenericAllocationHandle *handle, void *addr) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemRetainAllocationHandle, CT_OP_RETAIN))
        return real(handle, addr);
    const CUresult r = real(handle, addr);
    if (r == CUDA_SUCCESS)
        CT_SET(&call.event, handle, *handle);
    CT_SET(&call.event, ptr, (uintptr_t)addr);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemMap(ct_fn_cuMemMap *real, CUdeviceptr ptr, size_t size, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemMap, CT_OP_MAP))
        return real(ptr, size, offset, handle, flags);
    const CUresult r = real(ptr, size, offset, handle, flags);
    set_range(&call.event, ptr, size);
    CT_SET(&call.event, offset, offset);
    CT_SET(&call.event, handle, handle);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemUnmap(ct_fn_cuMemUnmap *real, CUdeviceptr ptr, size_t size) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemUnmap, CT_OP_UNMAP))
        return real(ptr, size);
    set_range(&call.event, ptr, size);
    ct_hook_free_enter(&call);
    const CUresult r = real(ptr, size);
    ct_hook_free_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemSetAccess(ct_fn_cuMemSetAccess *real, CUdeviceptr ptr, size_t size,
                              const CUmemAccessDesc *desc, size_t count) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemSetAccess, CT_OP_ACCESS))
        return real(ptr, size, desc, count);
    const CUresult r = real(ptr, size, desc, count);
    set_range(&call.event, ptr, size);
    if (desc && count && desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        CT_SET(&call.event, device, desc->location.id);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemExportToShareableHandle(ct_fn_cuMemExportToShareableHandle *real,
                                            void *shareableHandle,
                                            CUmemGenericAllocationHandle handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemExportToShareableHandle, CT_OP_EXPORT))
        return real(shareableHandle, handle, handleType, flags);
    const CUresult r = real(shareableHandle, handle, handleType, flags);
    CT_SET(&call.event, handle, handle);
    ct_hook_alloc_exit(&call, r);
    return r;
}

// Memory lies where it was created, whatever the context of the thread that imports it. The driver
// has no answer for a multicast object. Whether a capture forbids the question is not documented.
static void set_imported_device(struct ct_event *e, CUmemGenericAllocationHandle handle) {
    CUmemAllocationProp prop = {0};
    CUstreamCaptureMode mode;
    if (!ct_driver()->handle_properties || !ct_stream_relax_enter(&mode))
        return;
    const CUresult r = ct_driver()->handle_properties(&prop, handle);
    ct_stream_relax_leave(&mode);
    if (r == CUDA_SUCCESS && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        CT_SET(e, device, prop.location.id);
}

// The memory belongs to another process, or is this process's a second time; it is not counted as
// allocated.
CUresult ct_on_cuMemImportFromShareableHandle(ct_fn_cuMemImportFromShareableHandle *real,
                                              CUmemGenericAllocationHandle *handle, void *osHandle,
                                              CUmemAllocationHandleType shHandleType) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemImportFromShareableHandle, CT_OP_IMPORT))
        return real(handle, osHandle, shHandleType);
    const CUresult r = real(handle, osHandle, shHandleType);
    if (r == CUDA_SUCCESS) {
        CT_SET(&call.event, handle, *handle);
        set_imported_device(&call.event, *handle);
    }
    CT_SET(&call.event, flags, CT_FLAG_FOREIGN);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemGetHandleForAddressRange(ct_fn_cuMemGetHandleForAddressRange *real,
                                             void *handle, CUdeviceptr dptr, size_t size,
                                             CUmemRangeHandleType handleType,
                                             unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemGetHandleForAddressRange, CT_OP_EXPORT))
        return real(handle, dptr, size, handleType, flags);
    const CUresult r = real(handle, dptr, size, handleType, flags);
    set_range(&call.event, dptr, size);
    ct_hook_alloc_exit(&call, r);
    return r;
}

// The call binds tiles of sparse arrays, or unbinds them where the memory handle is NULL; either is
// one event. Only the sizes of mip tails are known.
static uint64_t sum_tiles(const CUarrayMapInfo *list, unsigned int count) {
    uint64_t bytes = 0;
    for (unsigned int i = 0; list && i < count; i++)
        if (list[i].subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
            bytes += list[i].subresource.miptail.size;
    return bytes;
}

static CUresult map_array_exit(struct ct_hook_call *call, CUresult r, const CUarrayMapInfo *list,
                               unsigned int count, CUstream stream) {
    CT_SET(&call->event, stream, (uintptr_t)stream);
    CT_SET(&call->event, flags, CT_FLAG_ARRAY);
    if (sum_tiles(list, count))
        CT_SET(&call->event, bytes, sum_tiles(list, count));
    if (list && count)
        CT_SET(&call->event, handle, list[0].memHandle.memHandle);
    ct_hook_alloc_exit(call, r);
    return r;
}

#define ON_MAP_ARRAY(symbol)                                                                       \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUarrayMapInfo *mapInfoList, unsigned int count, \
                            CUstream hStream) {                                                    \
        struct ct_hook_call call;                                                                  \
        if (!ct_hook_enter_timed(&call, CT_ID_##symbol, CT_OP_MAP))                                \
            return real(mapInfoList, count, hStream);                                              \
        return map_array_exit(&call, real(mapInfoList, count, hStream), mapInfoList, count,        \
                              hStream);                                                            \
    }
ON_MAP_ARRAY(cuMemMapArrayAsync)
ON_MAP_ARRAY(cuMemMapArrayAsync_ptsz)

// ---- multicast: an overlay over its members' memory, without memory of its own --------------

#if CUDA_VERSION >= 12010

CUresult ct_on_cuMulticastCreate(ct_fn_cuMulticastCreate *real,
                                 CUmemGenericAllocationHandle *mcHandle,
                                 const CUmulticastObjectProp *prop) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMulticastCreate, CT_OP_CREATE))
        return real(mcHandle, prop);
    const CUresult r = real(mcHandle, prop);
    if (r == CUDA_SUCCESS)
        CT_SET(&call.event, handle, *mcHandle);
    if (prop)
        CT_SET(&call.event, bytes, prop->size);
    CT_SET(&call.event, flags, CT_FLAG_MULTICAST);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMulticastAddDevice(ct_fn_cuMulticastAddDevice *real,
                                    CUmemGenericAllocationHandle mcHandle, CUdevice dev) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMulticastAddDevice, CT_OP_ACCESS))
        return real(mcHandle, dev);
    const CUresult r = real(mcHandle, dev);
    CT_SET(&call.event, handle, mcHandle);
    CT_SET(&call.event, device, dev);
    CT_SET(&call.event, flags, CT_FLAG_MULTICAST);
    ct_hook_alloc_exit(&call, r);
    return r;
}

static CUresult bind_exit(struct ct_hook_call *call, CUresult r, uint64_t handle, size_t offset,
                          size_t bytes) {
    CT_SET(&call->event, handle, handle);
    CT_SET(&call->event, offset, offset);
    CT_SET(&call->event, bytes, bytes);
    CT_SET(&call->event, flags, CT_FLAG_MULTICAST);
    ct_hook_alloc_exit(call, r);
    return r;
}

CUresult ct_on_cuMulticastBindMem(ct_fn_cuMulticastBindMem *real,
                                  CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                  CUmemGenericAllocationHandle memHandle, size_t memOffset,
                                  size_t size, unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMulticastBindMem, CT_OP_MAP))
        return real(mcHandle, mcOffset, memHandle, memOffset, size, flags);
    return bind_exit(&call, real(mcHandle, mcOffset, memHandle, memOffset, size, flags), mcHandle,
                     mcOffset, size);
}

CUresult ct_on_cuMulticastBindAddr(ct_fn_cuMulticastBindAddr *real,
                                   CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                   CUdeviceptr memptr, size_t size, unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMulticastBindAddr, CT_OP_MAP))
        return real(mcHandle, mcOffset, memptr, size, flags);
    return bind_exit(&call, real(mcHandle, mcOffset, memptr, size, flags), mcHandle, mcOffset,
                     size);
}

CUresult ct_on_cuMulticastUnbind(ct_fn_cuMulticastUnbind *real,
                                 CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                 size_t mcOffset, size_t size) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMulticastUnbind, CT_OP_UNMAP))
        return real(mcHandle, dev, mcOffset, size);
    CT_SET(&call.event, handle, mcHandle);
    CT_SET(&call.event, device, dev);
    CT_SET(&call.event, offset, mcOffset);
    CT_SET(&call.event, bytes, size);
    CT_SET(&call.event, flags, CT_FLAG_MULTICAST);
    ct_hook_free_enter(&call);
    const CUresult r = real(mcHandle, dev, mcOffset, size);
    ct_hook_free_exit(&call, r);
    return r;
}

#endif

// The same with a parameter for the device.
#if CUDA_VERSION >= 13010

CUresult ct_on_cuMulticastBindMem_v2(ct_fn_cuMulticastBindMem_v2 *real,
                                     CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                     size_t mcOffset, CUmemGenericAllocationHandle memHandle,
                                     size_t memOffset, size_t size, unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMulticastBindMem_v2, CT_OP_MAP))
        return real(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
    CT_SET(&call.event, device, dev);
    return bind_exit(&call, real(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags),
                     mcHandle, mcOffset, size);
}

CUresult ct_on_cuMulticastBindAddr_v2(ct_fn_cuMulticastBindAddr_v2 *real,
                                      CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                      size_t mcOffset, CUdeviceptr memptr, size_t size,
                                      unsigned long long flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMulticastBindAddr_v2, CT_OP_MAP))
        return real(mcHandle, dev, mcOffset, memptr, size, flags);
    CT_SET(&call.event, device, dev);
    return bind_exit(&call, real(mcHandle, dev, mcOffset, memptr, size, flags), mcHandle, mcOffset,
                     size);
}

#endif
