// SPDX-License-Identifier: Apache-2.0
// Hooks on device and managed memory, on page-locked host memory, and on cuMemGetInfo.
#define _GNU_SOURCE
#include "intercept/device_info.h"
#include "intercept/hook_scope.h"

// ---- device and managed memory --------------------------------------------------------------

// Output parameters are read after a success only.
static void set_allocation(struct ct_hook_call *call, CUresult r, const CUdeviceptr *dptr,
                           size_t bytes, enum ct_space space) {
    if (r == CUDA_SUCCESS)
        CT_SET(&call->event, ptr, *dptr);
    CT_SET(&call->event, bytes, bytes);
    CT_SET(&call->event, space, space);
}

CUresult ct_on_cuMemAlloc_v2(ct_fn_cuMemAlloc_v2 *real, CUdeviceptr *dptr, size_t bytesize) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemAlloc_v2, CT_OP_ALLOC))
        return real(dptr, bytesize);
    const CUresult r = real(dptr, bytesize);
    set_allocation(&call, r, dptr, bytesize, CT_SPACE_DEVICE);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemAllocPitch_v2(ct_fn_cuMemAllocPitch_v2 *real, CUdeviceptr *dptr, size_t *pPitch,
                                  size_t WidthInBytes, size_t Height,
                                  unsigned int ElementSizeBytes) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemAllocPitch_v2, CT_OP_ALLOC))
        return real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    const CUresult r = real(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    // The driver chooses the pitch. A failed call has none, but its width.
    set_allocation(&call, r, dptr, (r == CUDA_SUCCESS ? *pPitch : WidthInBytes) * Height,
                   CT_SPACE_DEVICE);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMemAllocManaged(ct_fn_cuMemAllocManaged *real, CUdeviceptr *dptr, size_t bytesize,
                                 unsigned int flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemAllocManaged, CT_OP_ALLOC))
        return real(dptr, bytesize, flags);
    const CUresult r = real(dptr, bytesize, flags);
    set_allocation(&call, r, dptr, bytesize, CT_SPACE_MANAGED);
    ct_hook_alloc_exit(&call, r);
    return r;
}

// Frees memory of cuMemAlloc*, cuMemAllocManaged, cuMemAllocAsync and graphs (cuda.h).
CUresult ct_on_cuMemFree_v2(ct_fn_cuMemFree_v2 *real, CUdeviceptr dptr) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemFree_v2, CT_OP_FREE))
        return real(dptr);
    CT_SET(&call.event, ptr, dptr);
    ct_hook_free_enter(&call);
    const CUresult r = real(dptr);
    ct_hook_free_exit(&call, r);
    return r;
}

// ---- page-locked host memory ----------------------------------------------------------------

static CUresult host_alloc_exit(struct ct_hook_call *call, CUresult r, void **pp, size_t bytes) {
    if (r == CUDA_SUCCESS)
        CT_SET(&call->event, ptr, (uintptr_t)*pp);
    CT_SET(&call->event, bytes, bytes);
    CT_SET(&call->event, space, CT_SPACE_HOST);
    ct_hook_alloc_exit(call, r);
    return r;
}

CUresult ct_on_cuMemAllocHost_v2(ct_fn_cuMemAllocHost_v2 *real, void **pp, size_t bytesize) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemAllocHost_v2, CT_OP_ALLOC))
        return real(pp, bytesize);
    return host_alloc_exit(&call, real(pp, bytesize), pp, bytesize);
}

CUresult ct_on_cuMemHostAlloc(ct_fn_cuMemHostAlloc *real, void **pp, size_t bytesize,
                              unsigned int Flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemHostAlloc, CT_OP_ALLOC))
        return real(pp, bytesize, Flags);
    return host_alloc_exit(&call, real(pp, bytesize, Flags), pp, bytesize);
}

#define ON_HOST_FREE(symbol, OP)                             \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, void *p) { \
        struct ct_hook_call call;                            \
        if (!ct_hook_enter(&call, CT_ID_##symbol, OP))       \
            return real(p);                                  \
        CT_SET(&call.event, ptr, (uintptr_t)p);              \
        CT_SET(&call.event, space, CT_SPACE_HOST);           \
        ct_hook_free_enter(&call);                           \
        const CUresult r = real(p);                          \
        ct_hook_free_exit(&call, r);                         \
        return r;                                            \
    }
ON_HOST_FREE(cuMemFreeHost, CT_OP_FREE)
ON_HOST_FREE(cuMemHostUnregister, CT_OP_UNREGISTER)

static CUresult register_exit(struct ct_hook_call *call, CUresult r, void *p, size_t bytes) {
    CT_SET(&call->event, ptr, (uintptr_t)p);
    CT_SET(&call->event, bytes, bytes);
    CT_SET(&call->event, space, CT_SPACE_HOST);
    ct_hook_alloc_exit(call, r);
    return r;
}

#define ON_HOST_REGISTER(symbol)                                                                  \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, void *p, size_t bytesize, unsigned int Flags) { \
        struct ct_hook_call call;                                                                 \
        if (!ct_hook_enter_timed(&call, CT_ID_##symbol, CT_OP_REGISTER))                          \
            return real(p, bytesize, Flags);                                                      \
        return register_exit(&call, real(p, bytesize, Flags), p, bytesize);                       \
    }
ON_HOST_REGISTER(cuMemHostRegister)
ON_HOST_REGISTER(cuMemHostRegister_v2)

// ---- free memory ----------------------------------------------------------------------------

// The host asks the driver itself, so this sample needs no call.
CUresult ct_on_cuMemGetInfo_v2(ct_fn_cuMemGetInfo_v2 *real, size_t *free, size_t *total) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemGetInfo_v2, CT_OP_MEMORY_SAMPLE))
        return real(free, total);
    const CUresult r = real(free, total);
    ct_hook_called(&call);
    // OptiX passes NULL (HAMi-core#234).
    if (r == CUDA_SUCCESS && free && total)
        ct_mem_info_sample_given(call.event.api, *free, *total);
    ct_hook_leave(&call);
    return r;
}
