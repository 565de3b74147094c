// SPDX-License-Identifier: Apache-2.0
// Hooks on contexts, their limits, and checkpoints of the process.
//
// A context costs hundreds of megabytes that no call names. It is measured as the change of free memory; before
// the first context of a process nobody but NVML can be asked, so that side stays unknown.
#define _GNU_SOURCE
#include <stdatomic.h>

#include "intercept/driver.h"
#include "intercept/hooks.h"

// Free memory with a context made current for the question. Leaves the thread's stack of contexts as it was.
static void measure_in(struct ct_event *e, CUcontext context) {
    const struct ct_driver *driver = ct_driver();
    size_t free_bytes, total_bytes;
    CUcontext popped;
    if (!driver->ctx_push || !driver->ctx_pop || driver->ctx_push(context) != CUDA_SUCCESS)
        return;
    if (ct_mem_info_read(&free_bytes, &total_bytes)) {
        CT_SET(e, free_bytes, free_bytes);
        CT_SET(e, total_bytes, total_bytes);
    }
    driver->ctx_pop(&popped);
}

static void measure_before(struct ct_hook_call *call, int device) {
    uint64_t context;
    int here;
    size_t free_bytes, total_bytes;
    if (ct_context_current(&context, &here) && here == device && ct_mem_info_read(&free_bytes, &total_bytes))
        CT_SET(&call->event, free_before_bytes, free_bytes);
}

static void created(struct ct_hook_call *call, CUresult r, CUcontext context, CUdevice device,
                    uint32_t flags) {
    struct ct_event *e = &call->event;
    CT_SET(e, device, device);
    CT_SET(e, flags, flags);
    if (r == CUDA_SUCCESS) {
        CT_SET(e, context, (uintptr_t)context);
        ct_context_created((uintptr_t)context, device);
        if (!ct_stream_any_capturing())
            measure_in(e, context);
    }
    ct_hook_alloc_exit(call, r);
}

// ---- primary contexts -----------------------------------------------------------------------

static int primary_is_active(CUdevice device) {
    const struct ct_driver *driver = ct_driver();
    unsigned int flags;
    int active = 0;
    return driver->primary_state &&
           driver->primary_state(device, &flags, &active) == CUDA_SUCCESS && active;
}

// Several threads may see one and the same beginning or end of a primary context, and one of them is to tell it:
// the one that turns the device's count, which it read before its call.
static atomic_uint primary_turns[CT_MAX_ORDINALS];

static unsigned primary_turn(CUdevice device) {
    return device >= 0 && device < CT_MAX_ORDINALS ? atomic_load(&primary_turns[device]) : 0;
}

static int turns_primary(CUdevice device, unsigned turn) {
    return device < 0 || device >= CT_MAX_ORDINALS ||
           atomic_compare_exchange_strong(&primary_turns[device], &turn, turn + 1);
}

CUresult ct_on_cuDevicePrimaryCtxRetain(ct_fn_cuDevicePrimaryCtxRetain *real, CUcontext *pctx,
                                        CUdevice dev) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuDevicePrimaryCtxRetain, CT_OP_CONTEXT_CREATE))
        return real(pctx, dev);
    const unsigned turn = primary_turn(dev);
    const int was_active = primary_is_active(dev);
    if (!was_active)
        measure_before(&call, dev);
    call.start_ns = ct_ring_now();
    const CUresult r = real(pctx, dev);
    if (r == CUDA_SUCCESS)
        ct_context_set_primary(dev, (uintptr_t)*pctx);
    if (r == CUDA_SUCCESS && (was_active || !turns_primary(dev, turn)))
        ct_hook_leave(&call); // one more reference to what is there
    else
        created(&call, r, r == CUDA_SUCCESS ? *pctx : NULL, dev, CT_FLAG_PRIMARY);
    return r;
}

// Which release is the last one is known afterwards only, so that its event is not ahead of it. Nobody
// can have got an address of the context meanwhile: they are the context's.
static CUresult released(struct ct_hook_call *call, CUresult r, CUdevice device, int was_active,
                         unsigned turn) {
    const uint64_t context = ct_context_primary(device);
    if (r != CUDA_SUCCESS || !was_active || primary_is_active(device) ||
        !turns_primary(device, turn)) {
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

#define ON_PRIMARY_RELEASE(symbol)                                   \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUdevice dev) {    \
        struct ct_hook_call call;                                         \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_CONTEXT_DESTROY)) \
            return real(dev);                                        \
        const unsigned turn = primary_turn(dev);                     \
        const int was_active = primary_is_active(dev);               \
        return released(&call, real(dev), dev, was_active, turn);    \
    }
ON_PRIMARY_RELEASE(cuDevicePrimaryCtxRelease)
ON_PRIMARY_RELEASE(cuDevicePrimaryCtxRelease_v2)

// Ends every allocation of the primary context, whoever holds references to it. An event also where there is
// none: it ends nothing.
static void resets(struct ct_hook_call *call, CUdevice device, uint64_t context) {
    CT_SET(&call->event, device, device);
    if (context)
        CT_SET(&call->event, context, context);
    CT_SET(&call->event, flags, CT_FLAG_PRIMARY | CT_FLAG_RESET);
    ct_hook_free_enter(call);
}

#define ON_PRIMARY_RESET(symbol)                                     \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUdevice dev) {    \
        struct ct_hook_call call;                                         \
        const uint64_t context = ct_context_primary(dev);                    \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_CONTEXT_DESTROY)) \
            return real(dev);                                        \
        resets(&call, dev, context);                                 \
        const CUresult r = real(dev);                                \
        if (r == CUDA_SUCCESS)                                       \
            ct_context_destroyed(context);                                \
        ct_hook_free_exit(&call, r);                                           \
        return r;                                                    \
    }
ON_PRIMARY_RESET(cuDevicePrimaryCtxReset)
ON_PRIMARY_RESET(cuDevicePrimaryCtxReset_v2)

// ---- contexts of one's own ------------------------------------------------------------------

static int enter_create(struct ct_hook_call *call, enum ct_hook_id id, CUdevice device) {
    if (!ct_hook_enter(call, id, CT_OP_CONTEXT_CREATE))
        return 0;
    measure_before(call, device);
    call->start_ns = ct_ring_now();
    return 1;
}

#define ON_CTX_CREATE(symbol, params, args)                          \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) {  \
        struct ct_hook_call call;                                         \
        if (!enter_create(&call, CT_ID_##symbol, dev))               \
            return real args;                                        \
        const CUresult r = real args;                                \
        created(&call, r, r == CUDA_SUCCESS ? *pctx : NULL, dev, 0); \
        return r;                                                    \
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

#define ON_CTX_DESTROY(symbol)                                       \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CUcontext ctx) {   \
        struct ct_hook_call call;                                         \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_CONTEXT_DESTROY)) \
            return real(ctx);                                        \
        const int device = ct_context_device((uintptr_t)ctx);        \
        CT_SET(&call.event, context, (uintptr_t)ctx);                \
        if (device != CT_NO_DEVICE_ORDINAL)                          \
            CT_SET(&call.event, device, device);                     \
        ct_hook_free_enter(&call);                                             \
        const CUresult r = real(ctx);                                \
        if (r == CUDA_SUCCESS)                                       \
            ct_context_destroyed((uintptr_t)ctx);                         \
        ct_hook_free_exit(&call, r);                                           \
        return r;                                                    \
    }
ON_CTX_DESTROY(cuCtxDestroy)
ON_CTX_DESTROY(cuCtxDestroy_v2)
// Deprecated: takes one reference away, of which cuCtxCreate gave one; contexts with more (cuCtxAttach)
// have not been seen in the wild.
ON_CTX_DESTROY(cuCtxDetach)

#if CUDA_VERSION >= 12040

// A green context is a part of the primary one and retains it.
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

CUresult ct_on_cuGreenCtxDestroy(ct_fn_cuGreenCtxDestroy *real, CUgreenCtx hCtx) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuGreenCtxDestroy, CT_OP_CONTEXT_DESTROY))
        return real(hCtx);
    CT_SET(&call.event, context, (uintptr_t)hCtx);
    CT_SET(&call.event, flags, CT_FLAG_GREEN);
    ct_hook_free_enter(&call);
    const CUresult r = real(hCtx);
    ct_hook_free_exit(&call, r);
    return r;
}

#endif

// ---- limits and checkpoints -----------------------------------------------------------------

CUresult ct_on_cuCtxSetLimit(ct_fn_cuCtxSetLimit *real, CUlimit limit, size_t value) {
    struct ct_hook_call call;
    if (!ct_hook_enter(&call, CT_ID_cuCtxSetLimit, CT_OP_LIMIT))
        return real(limit, value);
    ct_hook_measure_enter(&call);
    const CUresult r = real(limit, value);
    CT_SET(&call.event, handle, (uint64_t)limit);
    CT_SET(&call.event, bytes, value);
    ct_hook_measure_exit(&call, r);
    return r;
}

#if CUDA_VERSION >= 12080

// They move the device memory of a whole process (perhaps another one) to the host and back.
static void checkpointed(struct ct_hook_call *call, const char *what, int pid, CUresult r) {
    CT_SET(&call->event, text,
           ct_name_intern_format("%s of process %d: result %d", what, pid, (int)r));
    ct_hook_alloc_exit(call, r);
}

CUresult ct_on_cuCheckpointProcessCheckpoint(ct_fn_cuCheckpointProcessCheckpoint *real, int pid,
                                             CUcheckpointCheckpointArgs *args) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuCheckpointProcessCheckpoint, CT_OP_NOTE))
        return real(pid, args);
    const CUresult r = real(pid, args);
    checkpointed(&call, "checkpoint", pid, r);
    return r;
}

CUresult ct_on_cuCheckpointProcessRestore(ct_fn_cuCheckpointProcessRestore *real, int pid,
                                          CUcheckpointRestoreArgs *args) {
    struct ct_hook_call call;
    if (!ct_hook_enter_timed(&call, CT_ID_cuCheckpointProcessRestore, CT_OP_NOTE))
        return real(pid, args);
    const CUresult r = real(pid, args);
    checkpointed(&call, "restore", pid, r);
    return r;
}

#endif
