// SPDX-License-Identifier: Apache-2.0
// Wrappers of the runtime API: they put the name that the program called on the driver's events.
//
// One process may hold several copies of the runtime in several versions (torch's, a plugin's), so the real
// function is the one that the calling module would have got. A call whose driver calls cannot be seen
// (they go through a private table, or through a driver opened in another namespace) is recorded here.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/real_dlsym.h"
#include "intercept/hooks.h"

// ---- copies of the runtime ------------------------------------------------------------------

enum sight { UNKNOWN, VISIBLE, HIDDEN };

// A copy is known by the address that it is loaded at. It stays open, and so stays where it is.
#define COPIES 16
static struct copy {
    _Atomic uintptr_t base;
    atomic_int sight; // whether its driver calls come through our hooks
    atomic_int told;  // its version is in INFO
} copies[COPIES];

static struct copy *copy_at(uintptr_t base) {
    for (int i = 0; i < COPIES; i++) {
        uintptr_t empty = 0;
        if (atomic_load(&copies[i].base) == base ||
            atomic_compare_exchange_strong(&copies[i].base, &empty, base) || empty == base)
            return &copies[i];
    }
    return &copies[COPIES - 1];
}

static int is_runtime(const char *path) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    return path && strncmp(slash ? slash + 1 : path, "libcudart.so", 12) == 0;
}

static int find_runtime(struct dl_phdr_info *info, size_t size, void *path) {
    (void)size;
    if (!is_runtime(info->dlpi_name))
        return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

// In `module` and what it depends on; nothing for the main program, whose scope begins with us.
static void *in_scope_of(const Dl_info *module, const char *symbol) {
    void *handle = dlopen(module->dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    void *p = handle ? ct_real_dlsym_get_libc()(handle, symbol) : NULL;
    return p && !ct_is_own(p) ? p : NULL;
}

// What the caller would have been bound to without us: an interposer behind us in the global scope, else its own
// dependency, else the global runtime, else any runtime that is loaded (RTLD_LOCAL, found by hand).
static void *search_real(const char *symbol, const void *caller) {
    Dl_info module, next_module;
    void *next = ct_real_dlsym_get_libc()(RTLD_NEXT, symbol);
    if (next && dladdr(next, &next_module) && !is_runtime(next_module.dli_fname))
        return next;
    void *own = dladdr(caller, &module) && module.dli_fname ? in_scope_of(&module, symbol) : NULL;
    if (own || next)
        return own ? own : next;
    const char *path = NULL;
    void *handle =
        dl_iterate_phdr(find_runtime, &path) && path ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    return handle ? ct_real_dlsym_get_libc()(handle, symbol) : NULL;
}

// Answers by call site: a return address belongs to one function name and one module. Entries are
// written once; when the table is full, the search is made each time.
#define SITES 1024
static struct site {
    _Atomic uintptr_t caller;
    _Atomic(void *) real;
    _Atomic(struct copy *) copy;
} sites[SITES];

// cudaRuntimeGetVersion only tells a constant: it starts nothing.
static void tell_version(const char *path) {
    void *handle = is_runtime(path) ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : NULL;
    void *address = handle ? ct_real_dlsym_get_libc()(handle, "cudaRuntimeGetVersion") : NULL;
    cudaError_t(CUDARTAPI * get_version)(int *) = (cudaError_t(CUDARTAPI *)(int *))address;
    const char *slash = path ? strrchr(path, '/') : NULL;
    char key[96];
    int version;
    if (!get_version || get_version(&version) != cudaSuccess)
        return;
    snprintf(key, sizeof key, "cuda.runtime.%s", slash ? slash + 1 : path);
    ct_info_set(key, "%d", version);
}

static void *find_real(const char *symbol, const void *caller, struct copy **copy) {
    Dl_info module;
    void *real = search_real(symbol, caller);
    *copy = &copies[0];
    if (!real || !dladdr(real, &module))
        return real;
    *copy = copy_at((uintptr_t)module.dli_fbase);
    if (ct_tracing_is_on() && !atomic_exchange(&(*copy)->told, 1))
        tell_version(module.dli_fname);
    return real;
}

static void *real_at(const char *symbol, const void *caller, struct copy **copy) {
    const uintptr_t key = (uintptr_t)caller;
    for (size_t i = 0; i < 16; i++) {
        struct site *s = &sites[(key / 4 + i) % SITES];
        uintptr_t at = atomic_load_explicit(&s->caller, memory_order_acquire);
        if (at == key && (*copy = atomic_load(&s->copy)))
            return atomic_load(&s->real);
        if (at == 0) {
            void *real = find_real(symbol, caller, copy);
            if (real && atomic_compare_exchange_strong(&s->caller, &at, key)) {
                atomic_store(&s->real, real);
                atomic_store(&s->copy, *copy); // last: a reader that sees it sees `real`
            }
            return real;
        }
    }
    return find_real(symbol, caller, copy);
}

// ---- the scope of a runtime call ------------------------------------------------------------

static __thread struct {
    uint32_t name;         // of the outermost runtime function, 0 outside
    uintptr_t frame;       // address of its rt_call
    unsigned takes, gives; // driver calls seen inside
} inside;

struct rt_call {
    struct copy *copy;
    uint32_t outer;        // name in force before
    unsigned takes, gives; // counts before
    uint32_t name;
    uint64_t start_ns;
    struct ct_event freed; // published before the call, if its driver calls are hidden
};

uint32_t ct_runtime_scope_api(void) {
    return inside.name;
}

void ct_runtime_scope_count(enum ct_op op) {
    if (op == CT_OP_ALLOC || op == CT_OP_CREATE || op == CT_OP_GRAPH_ALLOC)
        inside.takes++;
    else if (op == CT_OP_FREE || op == CT_OP_RELEASE || op == CT_OP_UNMAP)
        inside.gives++;
}

static void enter(struct rt_call *call, uint32_t name) {
    // As in ct_hook_enter: an exception or longjmp may have left the outer one.
    if (inside.name && (uintptr_t)call >= inside.frame)
        inside.name = 0;
    call->outer = inside.name;
    call->takes = inside.takes;
    call->gives = inside.gives;
    call->name = name;
    call->start_ns = 0;
    ct_event_init(&call->freed);
    if (!inside.name) {
        inside.name = name;
        inside.frame = (uintptr_t)call;
    }
}

static void leave(const struct rt_call *call) {
    inside.name = call->outer;
}

// ---- events of a runtime whose driver calls are hidden --------------------------------------

static void describe(struct ct_event *e, const struct rt_call *call, enum ct_op op,
                     uintptr_t pointer, uint32_t flags) {
    CT_SET(e, op, op);
    CT_SET(e, api, call->name);
    CT_SET(e, ptr, pointer);
    CT_SET(e, flags, flags | CT_FLAG_RUNTIME);
}

static void record_take(const struct rt_call *call, cudaError_t r, uintptr_t pointer,
                        uint64_t bytes, enum ct_space space, uint32_t flags) {
    struct ct_event e = {.present = 0};
    uint64_t context;
    int device;
    describe(&e, call, CT_OP_ALLOC, pointer, flags);
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

static void before_take(struct rt_call *call) {
    call->start_ns = ct_ring_now();
}

static void after_take(struct rt_call *call, cudaError_t r, uintptr_t pointer, uint64_t bytes,
                       enum ct_space space, uint32_t flags) {
    const int seen = inside.takes != call->takes;
    if (seen)
        atomic_store_explicit(&call->copy->sight, VISIBLE, memory_order_relaxed);
    if (seen || call->outer || (r == cudaSuccess && !pointer))
        return; // the driver's event tells it, or nothing was allocated
    if (r == cudaSuccess)
        atomic_store_explicit(&call->copy->sight, HIDDEN, memory_order_relaxed);
    else if (r != cudaErrorMemoryAllocation &&
             atomic_load_explicit(&call->copy->sight, memory_order_relaxed) != HIDDEN)
        return; // refused by the runtime itself: no device, a bad argument
    record_take(call, r, pointer, bytes, space, flags);
}

static void record_give(struct rt_call *call, uintptr_t pointer) {
    describe(&call->freed, call, CT_OP_FREE, pointer, 0);
    CT_SET(&call->freed, result, 0);
    CT_SET(&call->freed, t_ns, ct_ring_now());
    ct_publish(&call->freed);
}

static void before_give(struct rt_call *call, uintptr_t pointer) {
    if (pointer && !call->outer &&
        atomic_load_explicit(&call->copy->sight, memory_order_relaxed) == HIDDEN)
        record_give(call, pointer);
}

static void after_give(struct rt_call *call, cudaError_t r, uintptr_t pointer) {
    if (CT_HAS(&call->freed, t_ns)) {
        if (r == cudaSuccess)
            return;
        struct ct_event amend = {.present = 0};
        CT_SET(&amend, amends_ns, call->freed.t_ns);
        CT_SET(&amend, result, (int32_t)r);
        CT_SET(&amend, stack, ct_capture_stack());
        ct_publish_amend(&amend);
    } else if (pointer && !call->outer && inside.gives == call->gives && r == cudaSuccess) {
        record_give(call, pointer); // the first sign that this copy's driver calls are hidden
    }
}

// ---- wrappers -------------------------------------------------------------------------------
// What an EFFECT does before and after the real call. It is pasted, so that one row tells both.

#define CT_PRE_CT_RT_NAME
#define CT_POST_CT_RT_NAME
#define CT_PRE_CT_RT_ALLOC(pointer, bytes, space, flags) before_take(&call)
#define CT_POST_CT_RT_ALLOC(pointer, bytes, space, flags)                                        \
    after_take(&call, r, r == cudaSuccess ? (uintptr_t)(pointer) : 0, (bytes), CT_SPACE_##space, \
               (flags))
#define CT_PRE_CT_RT_FREE(pointer) before_give(&call, (uintptr_t)(pointer))
#define CT_POST_CT_RT_FREE(pointer) after_give(&call, r, (uintptr_t)(pointer))
#define CT_PRE_CT_RT_RESOLVES(symbol, pointer, version, flags)
#define CT_POST_CT_RT_RESOLVES(symbol, pointer, version, flags) \
    if (r == cudaSuccess && (pointer))                          \
    *(pointer) = ct_resolve_substitute((symbol), (int)(version), (flags), *(pointer))

static uint32_t rthook_name(enum ct_rthook_id id, const char *symbol) {
    static _Atomic uint32_t names[CT_RTHOOKS];
    uint32_t name = atomic_load_explicit(&names[id], memory_order_relaxed);
    if (!name) {
        name = ct_name_intern(symbol);
        atomic_store_explicit(&names[id], name, memory_order_relaxed);
    }
    return name;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define CT_RTHOOK(symbol, params, args, effect)                                          \
    __attribute__((visibility("default"))) cudaError_t CUDARTAPI symbol params {         \
        struct rt_call call;                                                             \
        ct_fn_##symbol *real =                                                           \
            (ct_fn_##symbol *)real_at(#symbol, __builtin_return_address(0), &call.copy); \
        if (!real)                                                                       \
            return cudaErrorInitializationError;                                         \
        if (!ct_tracing_is_on())                                                         \
            return real args;                                                            \
        const int saved_errno = errno;                                                   \
        enter(&call, rthook_name(CT_RTID_##symbol, #symbol));                            \
        CT_PRE_##effect;                                                                 \
        errno = saved_errno;                                                             \
        const cudaError_t r = real args;                                                 \
        const int left_errno = errno;                                                    \
        CT_POST_##effect;                                                                \
        leave(&call);                                                                    \
        errno = left_errno;                                                              \
        return r;                                                                        \
    }
#include "intercept/hooks.def"
