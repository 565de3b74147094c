// SPDX-License-Identifier: Apache-2.0
// Wrappers of the runtime API. They put the name of the function that the program called on the
// driver's events. If the driver calls of a runtime are hidden (enum driver_calls), they record
// the allocation or the free themselves.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/read_file.h"
#include "base/real_dlsym.h"
#include "intercept/cuda_api.h"
#include "intercept/cuda_context.h"
#include "intercept/hook_table.h"
#include "intercept/own_image.h"
#include "intercept/resolve.h"
#include "intercept/runtime_scope.h"
#include "record/publish.h"
#include "record/tracing.h"
#include "stack/capture.h"
#include "store/ring.h"
#include "write/info_table.h"

// ---- copies of the runtime --------------------------------------------------------------------

// The copies of the runtime library in the process, and which of them a call goes on to. A process
// may hold several in several versions (PyTorch's, a plugin's). Any thread at any time.

// Whether the driver calls of a copy come through the driver hooks. They do not if the copy calls
// through a private table, or a driver that was opened in another namespace.
enum driver_calls { DRIVER_CALLS_UNKNOWN, DRIVER_CALLS_VISIBLE, DRIVER_CALLS_HIDDEN };

struct copy {
    _Atomic uintptr_t base; // the address that it is loaded at; 0: a free entry
    atomic_int driver_calls;
    atomic_int version_is_published;
};

#define COPIES 16
static struct copy copies[COPIES];

// A copy that is found here is kept open (dlopen), so that its address stays its own. When the
// table is full, all further copies share the last entry.
static struct copy *find_copy(uintptr_t base) {
    for (int i = 0; i < COPIES; i++) {
        uintptr_t empty = 0;
        if (atomic_load(&copies[i].base) == base ||
            atomic_compare_exchange_strong(&copies[i].base, &empty, base) || empty == base)
            return &copies[i];
    }
    return &copies[COPIES - 1];
}

static int is_runtime(const char *path) {
    return path && strncmp(ct_base_name(path), "libcudart.so", 12) == 0;
}

// ---- searching ------------------------------------------------------------------------------

static int visit_runtime(struct dl_phdr_info *info, size_t size, void *path) {
    (void)size;
    if (!is_runtime(info->dlpi_name))
        return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

// Searches every loaded object, also those of RTLD_LOCAL, for a runtime.
static void *search_objects(const char *symbol) {
    const char *path = NULL;
    if (!dl_iterate_phdr(visit_runtime, &path) || !path)
        return NULL;
    void *const handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    return handle ? ct_real_dlsym_get_libc()(handle, symbol) : NULL;
}

// Searches a module and its dependencies. The main program's search begins with this library, and
// finds nothing.
static void *search_dependencies(const Dl_info *module, const char *symbol) {
    void *const handle = dlopen(module->dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    return handle ? ct_own_image_look_beyond(handle, symbol) : NULL;
}

// In this order: an interposer behind this library in the global scope, the caller's own
// dependency, the runtime of the global scope, any runtime that is loaded.
static void *search(const char *symbol, const void *caller) {
    Dl_info module, next_module;
    void *const next = ct_real_dlsym_get_libc()(RTLD_NEXT, symbol);
    if (next && dladdr(next, &next_module) && !is_runtime(next_module.dli_fname))
        return next;
    if (dladdr(caller, &module) && module.dli_fname) {
        void *const own = search_dependencies(&module, symbol);
        if (own)
            return own;
    }
    return next ? next : search_objects(symbol);
}

// cudaRuntimeGetVersion returns a constant; it does not initialize the runtime.
static void publish_version(const char *path) {
    void *handle = is_runtime(path) ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    void *address = handle ? ct_real_dlsym_get_libc()(handle, "cudaRuntimeGetVersion") : NULL;
    cudaError_t(CUDARTAPI * get_version)(int *) = (cudaError_t(CUDARTAPI *)(int *))address;
    int version;
    if (get_version && get_version(&version) == cudaSuccess)
        ct_info_set_number((uint64_t)version, "cuda.runtime.%s", ct_base_name(path));
}

static void *search_with_copy(const char *symbol, const void *caller, struct copy **copy) {
    Dl_info module;
    void *const real = search(symbol, caller);
    *copy = &copies[0];
    if (!real || !dladdr(real, &module))
        return real;
    *copy = find_copy((uintptr_t)module.dli_fbase);
    if (ct_tracing_is_on() && !atomic_exchange(&(*copy)->version_is_published, 1))
        publish_version(module.dli_fname);
    return real;
}

// ---- answers by call site -------------------------------------------------------------------

// A return address belongs to one function name and one module. Entries are written once, and never
// removed. When the table is full, each call searches.
#define SITES 1024
#define PROBES 16
static struct site {
    _Atomic uintptr_t caller;
    _Atomic(void *) real;
    _Atomic(struct copy *) copy;
} sites[SITES];

// The function that `caller`, a return address, would call if cutrace were not there, and the copy
// that it belongs to (never NULL). NULL if there is none.
static void *find_real(const char *symbol, const void *caller, struct copy **copy) {
    const uintptr_t key = (uintptr_t)caller;
    for (size_t i = 0; i < PROBES; i++) {
        struct site *const s = &sites[(key / 4 + i) % SITES];
        uintptr_t site_caller = atomic_load_explicit(&s->caller, memory_order_acquire);
        if (site_caller == key && (*copy = atomic_load(&s->copy)))
            return atomic_load(&s->real);
        if (site_caller == 0) {
            void *const real = search_with_copy(symbol, caller, copy);
            if (real && atomic_compare_exchange_strong(&s->caller, &site_caller, key)) {
                // The copy is stored last: a reader that finds it finds `real`.
                atomic_store(&s->real, real);
                atomic_store(&s->copy, *copy);
            }
            return real;
        }
    }
    return search_with_copy(symbol, caller, copy);
}

// ---- calls ------------------------------------------------------------------------------------

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
    struct copy *copy;
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

static int is_hidden(const struct copy *copy) {
    return atomic_load_explicit(&copy->driver_calls, memory_order_relaxed) == DRIVER_CALLS_HIDDEN;
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

static void alloc_exit(struct runtime_call *call, cudaError_t r, uintptr_t pointer, uint64_t bytes,
                       enum ct_space space, uint32_t flags) {
    const int seen = ct_runtime_scope_saw_alloc(&call->scope);
    if (seen)
        atomic_store_explicit(&call->copy->driver_calls, DRIVER_CALLS_VISIBLE,
                              memory_order_relaxed);
    // The driver's event has it, or nothing was allocated.
    if (seen || (r == cudaSuccess && !pointer) || is_refused(&call->scope, r))
        return;
    if (r == cudaSuccess)
        atomic_store_explicit(&call->copy->driver_calls, DRIVER_CALLS_HIDDEN, memory_order_relaxed);
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
#define ENTER_CT_RT_ALLOC(pointer, bytes, space, flags) call.start_ns = ct_ring_now()
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
#define CT_RTHOOK(symbol, params, args, effect)                                            \
    CT_RUNTIME_WRAPPER                                                                     \
    __attribute__((visibility("default"))) cudaError_t CUDARTAPI symbol params {           \
        struct runtime_call call;                                                          \
        ct_fn_##symbol *const real =                                                       \
            (ct_fn_##symbol *)find_real(#symbol, __builtin_return_address(0), &call.copy); \
        if (!real)                                                                         \
            return cudaErrorInitializationError;                                           \
        if (!ct_tracing_is_on())                                                           \
            return real args;                                                              \
        const int saved_errno = errno;                                                     \
        enter(&call, name_of(RUNTIME_ID_##symbol, #symbol));                               \
        ENTER_##effect;                                                                    \
        errno = saved_errno;                                                               \
        const cudaError_t r = real args;                                                   \
        const int left_errno = errno;                                                      \
        EXIT_##effect;                                                                     \
        ct_runtime_scope_leave(&call.scope);                                               \
        errno = left_errno;                                                                \
        return r;                                                                          \
    }
#include "intercept/runtime_hooks.def"
