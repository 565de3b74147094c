// SPDX-License-Identifier: Apache-2.0
// Hooks on page-locked host memory.
#define _GNU_SOURCE
#include "intercept/hooks.h"

static CUresult allocated(struct ct_hook_call *call, CUresult r, void **pp, size_t bytes) {
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
    return allocated(&call, real(pp, bytesize), pp, bytesize);
}

CUresult ct_on_cuMemHostAlloc(ct_fn_cuMemHostAlloc *real, void **pp, size_t bytesize,
                              unsigned int Flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemHostAlloc, CT_OP_ALLOC))
        return real(pp, bytesize, Flags);
    return allocated(&call, real(pp, bytesize, Flags), pp, bytesize);
}

CUresult ct_on_cuMemFreeHost(ct_fn_cuMemFreeHost *real, void *p) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemFreeHost, CT_OP_FREE))
        return real(p);
    CT_SET(&call.event, ptr, (uintptr_t)p);
    CT_SET(&call.event, space, CT_SPACE_HOST);
    ct_hook_free_enter(&call);
    const CUresult r = real(p);
    ct_hook_free_exit(&call, r);
    return r;
}

static CUresult registered(struct ct_hook_call *call, CUresult r, void *p, size_t bytes) {
    CT_SET(&call->event, ptr, (uintptr_t)p);
    CT_SET(&call->event, bytes, bytes);
    CT_SET(&call->event, space, CT_SPACE_HOST);
    ct_hook_alloc_exit(call, r);
    return r;
}

CUresult ct_on_cuMemHostRegister(ct_fn_cuMemHostRegister *real, void *p, size_t bytesize,
                                 unsigned int Flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemHostRegister, CT_OP_REGISTER))
        return real(p, bytesize, Flags);
    return registered(&call, real(p, bytesize, Flags), p, bytesize);
}

CUresult ct_on_cuMemHostRegister_v2(ct_fn_cuMemHostRegister_v2 *real, void *p, size_t bytesize,
                                    unsigned int Flags) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuMemHostRegister_v2, CT_OP_REGISTER))
        return real(p, bytesize, Flags);
    return registered(&call, real(p, bytesize, Flags), p, bytesize);
}

CUresult ct_on_cuMemHostUnregister(ct_fn_cuMemHostUnregister *real, void *p) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuMemHostUnregister, CT_OP_UNREGISTER))
        return real(p);
    CT_SET(&call.event, ptr, (uintptr_t)p);
    CT_SET(&call.event, space, CT_SPACE_HOST);
    ct_hook_free_enter(&call);
    const CUresult r = real(p);
    ct_hook_free_exit(&call, r);
    return r;
}
