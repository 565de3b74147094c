// SPDX-License-Identifier: Apache-2.0
// Hooks on contexts.
//
// A context costs hundreds of megabytes that no call names. The cost is measured as the change of
// free memory. Before the first context of a process exists, the driver has no answer (only NVML
// has), so free memory before that context stays unknown.
#define _GNU_SOURCE
#include <stdatomic.h>

#include "intercept/cuda_context.h"
#include "intercept/device_info.h"
#include "intercept/driver.h"
#include "intercept/hook_scope.h"
#include "intercept/passes.h"
#include "intercept/stream.h"
#include "store/ring.h"

// Reads free memory with `context` made current meanwhile.
static void set_free_in(struct ct_event *e, CUcontext context) {
    const struct ct_driver *driver = ct_driver();
    size_t free_bytes, total_bytes;
    CUcontext popped;
    if (!driver->ctx_push || !driver->ctx_pop || CT_ASK(driver->ctx_push(context)) != CUDA_SUCCESS)
        return;
    if (ct_mem_info_read(&free_bytes, &total_bytes)) {
        CT_SET(e, free_bytes, free_bytes);
        CT_SET(e, total_bytes, total_bytes);
    }
    (void)CT_ASK(driver->ctx_pop(&popped));
}

static void set_free_before(struct ct_hook_call *call, int device) {
    uint64_t context;
    int current_device;
    size_t free_bytes, total_bytes;
    if (!ct_pass_is_second() && ct_context_current(&context, &current_device) &&
        current_device == device && ct_mem_info_read(&free_bytes, &total_bytes))
        CT_SET(&call->event, free_before_bytes, free_bytes);
}

static void create_exit(struct ct_hook_call *call, CUresult r, CUcontext context, CUdevice device,
                        uint32_t flags) {
    struct ct_event *e = &call->event;
    CT_SET(e, device, device);
    CT_SET(e, flags, flags);
    if (r == CUDA_SUCCESS) {
        CT_SET(e, context, (uintptr_t)context);
        ct_context_created((uintptr_t)context, device);
        if (!ct_stream_any_capturing())
            set_free_in(e, context);
    }
    ct_hook_alloc_exit(call, r);
}

// ---- primary contexts -----------------------------------------------------------------------

static int primary_is_active(CUdevice device) {
    const struct ct_driver *driver = ct_driver();
    unsigned int flags;
    int active = 0;
    return driver->primary_state &&
           CT_ASK(driver->primary_state(device, &flags, &active)) == CUDA_SUCCESS && active;
}

// Several threads may observe the same creation or destruction of a primary context. One of them
// records it: the thread that increments the device's count, which it read before its call.
static atomic_uint primary_changes[CT_MAX_ORDINALS];

static unsigned count_primary_changes(CUdevice device) {
    return device >= 0 && device < CT_MAX_ORDINALS ? atomic_load(&primary_changes[device]) : 0;
}

static int claim_primary_change(CUdevice device, unsigned changes) {
    return device < 0 || device >= CT_MAX_ORDINALS ||
           atomic_compare_exchange_strong(&primary_changes[device], &changes, changes + 1);
}

CUresult ct_on_cuDevicePrimaryCtxRetain(ct_fn_cuDevicePrimaryCtxRetain *real, CUcontext *pctx,
                                        CUdevice dev) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuDevicePrimaryCtxRetain, CT_OP_CONTEXT_CREATE))
        return real(pctx, dev);
    const unsigned changes = (unsigned)CT_KEPT(count_primary_changes(dev));
    const int was_active = (int)CT_KEPT(primary_is_active(dev));
    if (!was_active)
        set_free_before(&call, dev);
    if (!ct_pass_is_second())
        call.start_ns = ct_ring_now();
    const CUresult r = real(pctx, dev);
    ct_hook_called(&call);
    if (r == CUDA_SUCCESS)
        ct_context_set_primary(dev, (uintptr_t)*pctx);
    // One more reference to an existing context is no event.
    if (r == CUDA_SUCCESS && (was_active || !claim_primary_change(dev, changes)))
        ct_hook_leave(&call);
    else
        create_exit(&call, r, r == CUDA_SUCCESS ? *pctx : NULL, dev, CT_FLAG_PRIMARY);
    return r;
}

// Whether a release was the last one is known only after the call, so its event follows the call,
// unlike a free's. No other thread can have got an address of this context meanwhile, because the
// addresses belong to the context.
static CUresult release_exit(struct ct_hook_call *call, CUresult r, CUdevice device, int was_active,
                             unsigned changes) {
    const uint64_t context = ct_context_primary(device);
    ct_hook_called(call);
    if (r != CUDA_SUCCESS || !was_active || primary_is_active(device) ||
        !claim_primary_change(device, changes)) {
        ct_hook_leave(call);
        return r;
    }
    CT_SET(&call->event, device, device);
    CT_SET(&call->event, flags, CT_FLAG_PRIMARY);
    if (context) {
        CT_SET(&call->event, context, context);
        ct_context_destroyed(context);
    }
    ct_hook_alloc_exit(call, r);
    return r;
}

#define ON_PRIMARY_RELEASE(symbol)                                              \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUdevice dev) {               \
        struct ct_hook_call call;                                               \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_CONTEXT_DESTROY))       \
            return real(dev);                                                   \
        const unsigned changes = (unsigned)CT_KEPT(count_primary_changes(dev)); \
        const int was_active = (int)CT_KEPT(primary_is_active(dev));            \
        return release_exit(&call, real(dev), dev, was_active, changes);        \
    }
ON_PRIMARY_RELEASE(cuDevicePrimaryCtxRelease)
ON_PRIMARY_RELEASE(cuDevicePrimaryCtxRelease_v2)

// A reset frees every allocation of the primary context, whatever references are left. A reset
// without a context is recorded too; it frees nothing.
static void reset_enter(struct ct_hook_call *call, CUdevice device, uint64_t context) {
    CT_SET(&call->event, device, device);
    if (context)
        CT_SET(&call->event, context, context);
    CT_SET(&call->event, flags, CT_FLAG_PRIMARY | CT_FLAG_RESET);
    ct_hook_free_enter(call);
}

#define ON_PRIMARY_RESET(symbol)                                          \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUdevice dev) {         \
        struct ct_hook_call call;                                         \
        const uint64_t context = ct_context_primary(dev);                 \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_CONTEXT_DESTROY)) \
            return real(dev);                                             \
        reset_enter(&call, dev, context);                                 \
        const CUresult r = real(dev);                                     \
        if (r == CUDA_SUCCESS)                                            \
            ct_context_destroyed(context);                                \
        ct_hook_free_exit(&call, r);                                      \
        return r;                                                         \
    }
ON_PRIMARY_RESET(cuDevicePrimaryCtxReset)
ON_PRIMARY_RESET(cuDevicePrimaryCtxReset_v2)

// ---- other contexts -------------------------------------------------------------------------

static int enter_create(struct ct_hook_call *call, enum ct_hook_id id, CUdevice device) {
    if (!ct_hook_enter(call, id, CT_OP_CONTEXT_CREATE))
        return 0;
    set_free_before(call, device);
    if (!ct_pass_is_second())
        call->start_ns = ct_ring_now();
    return 1;
}

#define ON_CTX_CREATE(symbol, params, args)                              \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) {      \
        struct ct_hook_call call;                                        \
        if (!enter_create(&call, CT_ID_##symbol, dev))                   \
            return real args;                                            \
        const CUresult r = real args;                                    \
        create_exit(&call, r, r == CUDA_SUCCESS ? *pctx : NULL, dev, 0); \
        return r;                                                        \
    }
ON_CTX_CREATE(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
ON_CTX_CREATE(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev),
              (pctx, flags, dev))
ON_CTX_CREATE(cuCtxCreate_v3,
              (CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams,
               unsigned int flags, CUdevice dev),
              (pctx, paramsArray, numParams, flags, dev))
#if CUDA_VERSION >= 12050
ON_CTX_CREATE(cuCtxCreate_v4,
              (CUcontext * pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
               CUdevice dev),
              (pctx, ctxCreateParams, flags, dev))
#endif

#define ON_CTX_DESTROY(symbol)                                            \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUcontext ctx) {        \
        struct ct_hook_call call;                                         \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_CONTEXT_DESTROY)) \
            return real(ctx);                                             \
        const int device = ct_context_device((uintptr_t)ctx);             \
        CT_SET(&call.event, context, (uintptr_t)ctx);                     \
        if (device != CT_NO_DEVICE_ORDINAL)                               \
            CT_SET(&call.event, device, device);                          \
        ct_hook_free_enter(&call);                                        \
        const CUresult r = real(ctx);                                     \
        if (r == CUDA_SUCCESS)                                            \
            ct_context_destroyed((uintptr_t)ctx);                         \
        ct_hook_free_exit(&call, r);                                      \
        return r;                                                         \
    }
ON_CTX_DESTROY(cuCtxDestroy)
ON_CTX_DESTROY(cuCtxDestroy_v2)
// Deprecated. It drops one reference, and cuCtxCreate gives one; programs that hold more
// (cuCtxAttach) have not been seen.
ON_CTX_DESTROY(cuCtxDetach)

#if CUDA_VERSION >= 12040

// A green context is a part of the primary context and retains it.
CUresult ct_on_cuGreenCtxCreate(ct_fn_cuGreenCtxCreate *real, CUgreenCtx *phCtx,
                                CUdevResourceDesc desc, CUdevice dev, unsigned int flags) {
    struct ct_hook_call call;
    if (!enter_create(&call, CT_ID_cuGreenCtxCreate, dev))
        return real(phCtx, desc, dev, flags);
    const CUresult r = real(phCtx, desc, dev, flags);
    CT_SET(&call.event, device, dev);
    CT_SET(&call.event, flags, CT_FLAG_GREEN);
    if (r == CUDA_SUCCESS)
        CT_SET(&call.event, context, (uintptr_t)*phCtx);
    ct_hook_alloc_exit(&call, r);
    return r;
}

#endif
