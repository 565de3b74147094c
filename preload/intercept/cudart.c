// SPDX-License-Identifier: Apache-2.0
// Wrappers of the runtime API. They put the name of the function that the program called on the
// driver's events. If the driver calls of a runtime are hidden (cudart_copies.h), they record the
// allocation or the free themselves.
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>

#include "intercept/cuda_context.h"
#include "intercept/cudart_copies.h"
#include "intercept/hook_table.h"
#include "intercept/resolve.h"
#include "intercept/runtime_scope.h"
#include "record/publish.h"
#include "record/tracing.h"
#include "stack/capture.h"
#include "store/ring.h"

enum runtime_hook_id {
#define CT_RTHOOK(symbol, params, args, effect) RUNTIME_ID_##symbol,
#include "intercept/runtime_hooks.def"
    RUNTIME_HOOKS
};

#define CT_RTHOOK(symbol, params, args, effect) typedef cudaError_t CUDARTAPI ct_fn_##symbol params;
#include "intercept/runtime_hooks.def"

// A runtime call in progress; lives in the wrapper's frame.
struct runtime_call {
    struct ct_runtime_scope scope;
    struct ct_cudart_copy *copy;
    uint32_t name;
    uint64_t start_ns;
    struct ct_event freed; // published before the call if the driver calls of the copy are hidden
};

static void enter(struct runtime_call *call, uint32_t name) {
    ct_runtime_scope_enter(&call->scope, name);
    call->name = name;
    call->start_ns = 0;
    ct_event_init(&call->freed);
}

// ---- events of a runtime whose driver calls are hidden --------------------------------------

static int is_hidden(const struct ct_cudart_copy *copy) {
    return atomic_load_explicit(&copy->driver_calls, memory_order_relaxed) ==
           CT_DRIVER_CALLS_HIDDEN;
}

static void set_common(struct ct_event *e, const struct runtime_call *call, enum ct_op op,
                       uintptr_t pointer, uint32_t flags) {
    CT_SET(e, op, op);
    CT_SET(e, api, call->name);
    CT_SET(e, ptr, pointer);
    CT_SET(e, flags, flags | CT_FLAG_RUNTIME);
}

static void record_alloc(const struct runtime_call *call, cudaError_t r, uintptr_t pointer,
                         uint64_t bytes, enum ct_space space, uint32_t flags) {
    struct ct_event e = {.present = 0};
    uint64_t context;
    int device;
    set_common(&e, call, CT_OP_ALLOC, pointer, flags);
    if (r != cudaSuccess)
        e.present &= ~CT_BIT(ptr);
    CT_SET(&e, bytes, bytes);
    CT_SET(&e, space, space);
    CT_SET(&e, result, (int32_t)r);
    CT_SET(&e, t_ns, ct_ring_now());
    CT_SET(&e, duration_ns, e.t_ns - call->start_ns);
    if (ct_context_current(&context, &device) && device != CT_NO_DEVICE_ORDINAL) {
        CT_SET(&e, context, context);
        CT_SET(&e, device, device);
    }
    if (!ct_publish_wants(&e))
        return;
    CT_SET(&e, stack, ct_capture_stack());
    ct_publish(&e);
}

static void record_free(struct runtime_call *call, uintptr_t pointer) {
    set_common(&call->freed, call, CT_OP_FREE, pointer, 0);
    CT_SET(&call->freed, result, 0);
    CT_SET(&call->freed, t_ns, ct_ring_now());
    ct_publish(&call->freed);
}

// Whether a call belongs to another runtime call, or is lost: a signal handler makes it that has
// interrupted one, or nobody can say.
static int is_refused(const struct ct_runtime_scope *scope, cudaError_t r) {
    ct_ring_count_lost(ct_enclosing_is_lost(scope->outer) && r == cudaSuccess);
    return scope->outer != CT_ENCLOSING_NONE;
}

static void alloc_enter(struct runtime_call *call) {
    call->start_ns = ct_ring_now();
}

static void alloc_exit(struct runtime_call *call, cudaError_t r, uintptr_t pointer, uint64_t bytes,
                       enum ct_space space, uint32_t flags) {
    const int seen = ct_runtime_scope_saw_alloc(&call->scope);
    if (seen)
        atomic_store_explicit(&call->copy->driver_calls, CT_DRIVER_CALLS_VISIBLE,
                              memory_order_relaxed);
    // The driver's event has it, or nothing was allocated.
    if (seen || (r == cudaSuccess && !pointer) || is_refused(&call->scope, r))
        return;
    if (r == cudaSuccess)
        atomic_store_explicit(&call->copy->driver_calls, CT_DRIVER_CALLS_HIDDEN,
                              memory_order_relaxed);
    // The runtime itself failed the call: no device, a bad argument.
    else if (r != cudaErrorMemoryAllocation && !is_hidden(call->copy))
        return;
    record_alloc(call, r, pointer, bytes, space, flags);
}

static void free_enter(struct runtime_call *call, uintptr_t pointer) {
    if (pointer && !call->scope.outer && is_hidden(call->copy))
        record_free(call, pointer);
}

static void free_exit(struct runtime_call *call, cudaError_t r, uintptr_t pointer) {
    if (CT_HAS(&call->freed, t_ns)) {
        if (r == cudaSuccess)
            return;
        struct ct_event amend = {.present = 0};
        CT_SET(&amend, amends_ns, call->freed.t_ns);
        CT_SET(&amend, result, (int32_t)r);
        CT_SET(&amend, stack, ct_capture_stack());
        ct_publish_amend(&amend);
    } else if (pointer && !ct_runtime_scope_saw_free(&call->scope) && r == cudaSuccess &&
               !is_refused(&call->scope, r)) {
        // The first sign that this copy's driver calls are hidden.
        record_free(call, pointer);
    }
}

// ---- wrappers -------------------------------------------------------------------------------
// An EFFECT of runtime_hooks.def becomes a statement before the real call (ENTER_) and one after it
// (EXIT_), by pasting its name.

#define ENTER_CT_RT_NAME
#define EXIT_CT_RT_NAME
#define ENTER_CT_RT_ALLOC(pointer, bytes, space, flags) alloc_enter(&call)
#define EXIT_CT_RT_ALLOC(pointer, bytes, space, flags)                                           \
    alloc_exit(&call, r, r == cudaSuccess ? (uintptr_t)(pointer) : 0, (bytes), CT_SPACE_##space, \
               (flags))
#define ENTER_CT_RT_FREE(pointer) free_enter(&call, (uintptr_t)(pointer))
#define EXIT_CT_RT_FREE(pointer) free_exit(&call, r, (uintptr_t)(pointer))
#define ENTER_CT_RT_RESOLVES(symbol, pointer, version, flags)
#define EXIT_CT_RT_RESOLVES(symbol, pointer, version, flags)                                      \
    if (r == cudaSuccess && (pointer))                                                            \
    *(pointer) = ct_resolve_substitute(CT_LOOK_UP_ENTRY_POINT, (symbol), (int)(version), (flags), \
                                       *(pointer))

static uint32_t name_of(enum runtime_hook_id id, const char *symbol) {
    static _Atomic uint32_t names[RUNTIME_HOOKS];
    return ct_hook_table_cached_name(&names[id], symbol);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define CT_RTHOOK(symbol, params, args, effect)                                  \
    CT_RUNTIME_WRAPPER                                                           \
    __attribute__((visibility("default"))) cudaError_t CUDARTAPI symbol params { \
        struct runtime_call call;                                                \
        ct_fn_##symbol *const real = (ct_fn_##symbol *)ct_cudart_copies_find(    \
            #symbol, __builtin_return_address(0), &call.copy);                   \
        if (!real)                                                               \
            return cudaErrorInitializationError;                                 \
        if (!ct_tracing_is_on())                                                 \
            return real args;                                                    \
        const int saved_errno = errno;                                           \
        enter(&call, name_of(RUNTIME_ID_##symbol, #symbol));                     \
        ENTER_##effect;                                                          \
        errno = saved_errno;                                                     \
        const cudaError_t r = real args;                                         \
        const int left_errno = errno;                                            \
        EXIT_##effect;                                                           \
        ct_runtime_scope_leave(&call.scope);                                     \
        errno = left_errno;                                                      \
        return r;                                                                \
    }
#include "intercept/runtime_hooks.def"
