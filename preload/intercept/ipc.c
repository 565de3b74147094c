// SPDX-License-Identifier: Apache-2.0
// Hooks on memory that belongs to another process or another API: IPC, external memory, graphics.
// This process allocates none of it; it is recorded so that its addresses are known.
#define _GNU_SOURCE
#include "intercept/array.h"
#include "intercept/driver.h"
#include "intercept/hook_scope.h"

CUresult ct_on_cuIpcGetMemHandle(ct_fn_cuIpcGetMemHandle *real, CUipcMemHandle *pHandle,
                                 CUdeviceptr dptr) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuIpcGetMemHandle, CT_OP_EXPORT))
        return real(pHandle, dptr);
    const CUresult r = real(pHandle, dptr);
    CT_SET(&call.event, ptr, dptr);
    ct_hook_alloc_exit(&call, r);
    return r;
}

// The memory lies on the device of the process that allocated it, not on the thread's. (The
// question is allowed during a capture: Triton asks it for each pointer of each launch.)
static void set_opened_device(struct ct_event *e, CUdeviceptr ptr) {
    int device;
    if (ct_driver()->pointer_attribute &&
        CT_ASK(ct_driver()->pointer_attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr)) ==
            CUDA_SUCCESS)
        CT_SET(e, device, device);
}

static CUresult open_exit(struct ct_hook_call *call, CUresult r, const CUdeviceptr *pdptr) {
    if (r == CUDA_SUCCESS) {
        CT_SET(&call->event, ptr, *pdptr);
        set_opened_device(&call->event, *pdptr);
    }
    CT_SET(&call->event, flags, CT_FLAG_FOREIGN);
    ct_hook_alloc_exit(call, r);
    return r;
}

#define ON_IPC_OPEN(symbol)                                                                  \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUdeviceptr *pdptr, CUipcMemHandle handle, \
                            unsigned int Flags) {                                            \
        struct ct_hook_call call;                                                            \
        if (!ct_hook_enter_timed(&call, CT_ID_##symbol, CT_OP_IPC_OPEN))                     \
            return real(pdptr, handle, Flags);                                               \
        return open_exit(&call, real(pdptr, handle, Flags), pdptr);                          \
    }
ON_IPC_OPEN(cuIpcOpenMemHandle)
ON_IPC_OPEN(cuIpcOpenMemHandle_v2)

CUresult ct_on_cuIpcCloseMemHandle(ct_fn_cuIpcCloseMemHandle *real, CUdeviceptr dptr) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuIpcCloseMemHandle, CT_OP_IPC_CLOSE))
        return real(dptr);
    CT_SET(&call.event, ptr, dptr);
    ct_hook_free_enter(&call);
    const CUresult r = real(dptr);
    ct_hook_free_exit(&call, r);
    return r;
}

CUresult ct_on_cuImportExternalMemory(ct_fn_cuImportExternalMemory *real,
                                      CUexternalMemory *extMem_out,
                                      const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuImportExternalMemory, CT_OP_IMPORT))
        return real(extMem_out, memHandleDesc);
    const CUresult r = real(extMem_out, memHandleDesc);
    if (r == CUDA_SUCCESS)
        CT_SET(&call.event, handle, (uintptr_t)*extMem_out);
    if (memHandleDesc)
        CT_SET(&call.event, bytes, memHandleDesc->size);
    CT_SET(&call.event, flags, CT_FLAG_FOREIGN);
    ct_hook_alloc_exit(&call, r);
    return r;
}

// The address is freed with cuMemFree (cuda.h).
CUresult ct_on_cuExternalMemoryGetMappedBuffer(ct_fn_cuExternalMemoryGetMappedBuffer *real,
                                               CUdeviceptr *devPtr, CUexternalMemory extMem,
                                               const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuExternalMemoryGetMappedBuffer, CT_OP_MAP))
        return real(devPtr, extMem, bufferDesc);
    const CUresult r = real(devPtr, extMem, bufferDesc);
    if (r == CUDA_SUCCESS)
        CT_SET(&call.event, ptr, *devPtr);
    if (bufferDesc) {
        CT_SET(&call.event, bytes, bufferDesc->size);
        CT_SET(&call.event, offset, bufferDesc->offset);
    }
    CT_SET(&call.event, handle, (uintptr_t)extMem);
    CT_SET(&call.event, flags, CT_FLAG_FOREIGN | CT_FLAG_DERIVED);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuExternalMemoryGetMappedMipmappedArray(
    ct_fn_cuExternalMemoryGetMappedMipmappedArray *real, CUmipmappedArray *mipmap,
    CUexternalMemory extMem, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuExternalMemoryGetMappedMipmappedArray, CT_OP_MAP))
        return real(mipmap, extMem, mipmapDesc);
    const CUresult r = real(mipmap, extMem, mipmapDesc);
    if (mipmapDesc) {
        CT_SET(&call.event, bytes,
               ct_array_mipmap_bytes(&mipmapDesc->arrayDesc, mipmapDesc->numLevels));
        CT_SET(&call.event, offset, mipmapDesc->offset);
    }
    CT_SET(&call.event, handle, (uintptr_t)extMem);
    CT_SET(&call.event, flags, CT_FLAG_FOREIGN | CT_FLAG_DERIVED | CT_FLAG_ARRAY);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuDestroyExternalMemory(ct_fn_cuDestroyExternalMemory *real,
                                       CUexternalMemory extMem) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuDestroyExternalMemory, CT_OP_RELEASE))
        return real(extMem);
    CT_SET(&call.event, handle, (uintptr_t)extMem);
    CT_SET(&call.event, flags, CT_FLAG_FOREIGN);
    ct_hook_free_enter(&call);
    const CUresult r = real(extMem);
    ct_hook_free_exit(&call, r);
    return r;
}

static void set_graphics(struct ct_hook_call *call, unsigned int count,
                         CUgraphicsResource *resources, CUstream stream) {
    if (resources && count)
        CT_SET(&call->event, handle, (uintptr_t)resources[0]);
    CT_SET(&call->event, stream, (uintptr_t)stream);
    CT_SET(&call->event, flags, CT_FLAG_FOREIGN);
}

// The program asks for the address of each mapped resource by another call, and never frees it.
#define ON_GRAPHICS_MAP(symbol)                                                \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, unsigned int count,          \
                            CUgraphicsResource *resources, CUstream hStream) { \
        struct ct_hook_call call;                                              \
        if (!ct_hook_enter_timed(&call, CT_ID_##symbol, CT_OP_MAP))            \
            return real(count, resources, hStream);                            \
        const CUresult r = real(count, resources, hStream);                    \
        set_graphics(&call, count, resources, hStream);                        \
        ct_hook_alloc_exit(&call, r);                                          \
        return r;                                                              \
    }
#define ON_GRAPHICS_UNMAP(symbol)                                              \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, unsigned int count,          \
                            CUgraphicsResource *resources, CUstream hStream) { \
        struct ct_hook_call call;                                              \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_UNMAP))                \
            return real(count, resources, hStream);                            \
        set_graphics(&call, count, resources, hStream);                        \
        ct_hook_free_enter(&call);                                             \
        const CUresult r = real(count, resources, hStream);                    \
        ct_hook_free_exit(&call, r);                                           \
        return r;                                                              \
    }
ON_GRAPHICS_MAP(cuGraphicsMapResources)
ON_GRAPHICS_MAP(cuGraphicsMapResources_ptsz)
ON_GRAPHICS_UNMAP(cuGraphicsUnmapResources)
ON_GRAPHICS_UNMAP(cuGraphicsUnmapResources_ptsz)
