// SPDX-License-Identifier: Apache-2.0
// Hooks on arrays and mipmapped arrays. They have handles, not addresses, and the driver pads them:
// the bytes are what the descriptor asks for.
#define _GNU_SOURCE
#include "intercept/hooks.h"

#define NO_MEMORY_OF_ITS_OWN (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

static uint64_t element_bytes(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0; // block-compressed and planar formats have no bytes per element
    }
}

static uint64_t at_least_1(uint64_t n) {
    return n ? n : 1;
}

static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int level) {
    return element_bytes(d->Format) * d->NumChannels * at_least_1(d->Width >> level) *
           at_least_1(d->Height >> level) * at_least_1(d->Depth >> level);
}

// The driver clamps the number of levels to what the largest side allows (cuda.h).
uint64_t ct_array_mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels) {
    const uint64_t side = d->Width | d->Height | d->Depth;
    uint64_t bytes = 0;
    for (unsigned int i = 0; i < 64 && (i == 0 || (i < levels && side >> i)); i++)
        bytes += level_bytes(d, i);
    return bytes;
}

static void describe(struct ct_hook_call *call, CUresult r, const void *handle, uint64_t bytes,
                     unsigned int flags) {
    const int deferred = (flags & NO_MEMORY_OF_ITS_OWN) != 0;
    if (r == CUDA_SUCCESS)
        CT_SET(&call->event, handle, (uintptr_t)handle);
    if (bytes || deferred)
        CT_SET(&call->event, bytes, deferred ? 0 : bytes);
    CT_SET(&call->event, space, CT_SPACE_DEVICE);
    CT_SET(&call->event, flags,
           (uint32_t)(CT_FLAG_ARRAY | (deferred ? (unsigned)CT_FLAG_DEFERRED : 0)));
}

CUresult ct_on_cuArrayCreate_v2(ct_fn_cuArrayCreate_v2 *real, CUarray *pHandle,
                                const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuArrayCreate_v2, CT_OP_ALLOC))
        return real(pHandle, pAllocateArray);
    const CUresult r = real(pHandle, pAllocateArray);
    uint64_t bytes = 0;
    if (pAllocateArray)
        bytes = element_bytes(pAllocateArray->Format) * pAllocateArray->NumChannels *
                pAllocateArray->Width * at_least_1(pAllocateArray->Height);
    describe(&call, r, r == CUDA_SUCCESS ? *pHandle : NULL, bytes, 0);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuArray3DCreate_v2(ct_fn_cuArray3DCreate_v2 *real, CUarray *pHandle,
                                  const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuArray3DCreate_v2, CT_OP_ALLOC))
        return real(pHandle, pAllocateArray);
    const CUresult r = real(pHandle, pAllocateArray);
    describe(&call, r, r == CUDA_SUCCESS ? *pHandle : NULL,
             pAllocateArray ? level_bytes(pAllocateArray, 0) : 0,
             pAllocateArray ? pAllocateArray->Flags : 0);
    ct_hook_alloc_exit(&call, r);
    return r;
}

CUresult ct_on_cuMipmappedArrayCreate(ct_fn_cuMipmappedArrayCreate *real, CUmipmappedArray *pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                      unsigned int numMipmapLevels) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMipmappedArrayCreate, CT_OP_ALLOC))
        return real(pHandle, pMipmappedArrayDesc, numMipmapLevels);
    const CUresult r = real(pHandle, pMipmappedArrayDesc, numMipmapLevels);
    describe(&call, r, r == CUDA_SUCCESS ? *pHandle : NULL,
             pMipmappedArrayDesc ? ct_array_mipmap_bytes(pMipmappedArrayDesc, numMipmapLevels) : 0,
             pMipmappedArrayDesc ? pMipmappedArrayDesc->Flags : 0);
    ct_hook_alloc_exit(&call, r);
    return r;
}

static void destroys(struct ct_hook_call *call, const void *handle) {
    CT_SET(&call->event, handle, (uintptr_t)handle);
    CT_SET(&call->event, flags, CT_FLAG_ARRAY);
    ct_hook_free_enter(call);
}

CUresult ct_on_cuArrayDestroy(ct_fn_cuArrayDestroy *real, CUarray hArray) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuArrayDestroy, CT_OP_FREE))
        return real(hArray);
    destroys(&call, hArray);
    const CUresult r = real(hArray);
    ct_hook_free_exit(&call, r);
    return r;
}

CUresult ct_on_cuMipmappedArrayDestroy(ct_fn_cuMipmappedArrayDestroy *real,
                                       CUmipmappedArray hMipmappedArray) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMipmappedArrayDestroy, CT_OP_FREE))
        return real(hMipmappedArray);
    destroys(&call, hMipmappedArray);
    const CUresult r = real(hMipmappedArray);
    ct_hook_free_exit(&call, r);
    return r;
}
