// SPDX-License-Identifier: Apache-2.0
// Hooks on modules and libraries. Code and static data occupy device memory without an address, so
// free memory is measured before and after the load. Code that is loaded lazily is that of a
// look-up (below) or of a first launch (oom_only.c).
#define _GNU_SOURCE
#include <stdatomic.h>

#include "intercept/hook_scope.h"
#include "intercept/passes.h"

// ---- loads and unloads ----------------------------------------------------------------------

#define RETURN_LOADED(symbol, out, call_real)                         \
    do {                                                              \
        struct ct_hook_call call;                                     \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_MODULE_LOAD)) \
            return call_real;                                         \
        ct_hook_measure_enter(&call);                                 \
        const CUresult r = call_real;                                 \
        if (r == CUDA_SUCCESS)                                        \
            CT_SET(&call.event, handle, (uintptr_t) * (out));         \
        ct_hook_measure_exit(&call, r);                               \
        return r;                                                     \
    } while (0)

CUresult ct_on_cuModuleLoad(ct_fn_cuModuleLoad *real, CUmodule *module, const char *fname) {
    RETURN_LOADED(cuModuleLoad, module, real(module, fname));
}

CUresult ct_on_cuModuleLoadData(ct_fn_cuModuleLoadData *real, CUmodule *module, const void *image) {
    RETURN_LOADED(cuModuleLoadData, module, real(module, image));
}

CUresult ct_on_cuModuleLoadDataEx(ct_fn_cuModuleLoadDataEx *real, CUmodule *module,
                                  const void *image, unsigned int numOptions, CUjit_option *options,
                                  void **optionValues) {
    RETURN_LOADED(cuModuleLoadDataEx, module,
                  real(module, image, numOptions, options, optionValues));
}

CUresult ct_on_cuModuleLoadFatBinary(ct_fn_cuModuleLoadFatBinary *real, CUmodule *module,
                                     const void *fatCubin) {
    RETURN_LOADED(cuModuleLoadFatBinary, module, real(module, fatCubin));
}

CUresult ct_on_cuLibraryLoadData(ct_fn_cuLibraryLoadData *real, CUlibrary *library,
                                 const void *code, CUjit_option *jitOptions,
                                 void **jitOptionsValues, unsigned int numJitOptions,
                                 CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                 unsigned int numLibraryOptions) {
    RETURN_LOADED(cuLibraryLoadData, library,
                  real(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                       libraryOptionValues, numLibraryOptions));
}

CUresult ct_on_cuLibraryLoadFromFile(ct_fn_cuLibraryLoadFromFile *real, CUlibrary *library,
                                     const char *fileName, CUjit_option *jitOptions,
                                     void **jitOptionsValues, unsigned int numJitOptions,
                                     CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                     unsigned int numLibraryOptions) {
    RETURN_LOADED(cuLibraryLoadFromFile, library,
                  real(library, fileName, jitOptions, jitOptionsValues, numJitOptions,
                       libraryOptions, libraryOptionValues, numLibraryOptions));
}

#define RETURN_UNLOADED(symbol, what)                                   \
    do {                                                                \
        struct ct_hook_call call;                                       \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_MODULE_UNLOAD)) \
            return real(what);                                          \
        CT_SET(&call.event, handle, (uintptr_t)(what));                 \
        ct_hook_free_enter(&call);                                      \
        const CUresult r = real(what);                                  \
        ct_hook_free_exit(&call, r);                                    \
        return r;                                                       \
    } while (0)

CUresult ct_on_cuModuleUnload(ct_fn_cuModuleUnload *real, CUmodule hmod) {
    RETURN_UNLOADED(cuModuleUnload, hmod);
}

CUresult ct_on_cuLibraryUnload(ct_fn_cuLibraryUnload *real, CUlibrary library) {
    RETURN_UNLOADED(cuLibraryUnload, library);
}

// ---- look-ups -------------------------------------------------------------------------------

// Hooks on functions that look code up. With lazy loading, CUDA's default, the code of a module
// takes device memory only when it is needed first, and that may be such a call.
//
// A call that runs out of memory is always recorded. One that takes memory is recorded as a load of
// a module, if free memory was read before it and after it. Programs look up a function once, or
// before each launch; then two readings, some microseconds, would cost more than the call. So after
// IDLE_CALLS calls in a row that took nothing, one in IDLE_CALLS is measured, until one takes
// memory again.

#define IDLE_CALLS 16

static _Atomic uint8_t idle_in_a_row[CT_HOOKS]; // measured calls that took nothing
static __thread unsigned idle_look_ups;         // calls that were candidates for a measurement

static int is_measured(enum ct_hook_id id) {
    return atomic_load_explicit(&idle_in_a_row[id], memory_order_relaxed) < IDLE_CALLS ||
           ++idle_look_ups % IDLE_CALLS == 0;
}

static int took_memory(const struct ct_hook_call *call) {
    const struct ct_event *e = &call->event;
    const int taken = CT_HAS(e, free_before_bytes) && CT_HAS(e, free_bytes) &&
                      e->free_bytes < e->free_before_bytes;
    _Atomic uint8_t *const idle = &idle_in_a_row[call->hook];
    const unsigned before = atomic_load_explicit(idle, memory_order_relaxed);
    const unsigned now = taken ? 0 : before + (before < IDLE_CALLS);
    if (now != before)
        atomic_store_explicit(idle, (uint8_t)now, memory_order_relaxed);
    return taken;
}

static int look_up_enter(struct ct_hook_call *call) {
    const int measured = (int)CT_KEPT(is_measured(call->hook));
    if (measured)
        ct_hook_measure_enter(call);
    return measured;
}

static void look_up_exit(struct ct_hook_call *call, CUresult r, int measured) {
    ct_hook_measure_after(call, measured || r == CUDA_ERROR_OUT_OF_MEMORY);
    const int is_load = measured && r == CUDA_SUCCESS && took_memory(call);
    if (is_load || r == CUDA_ERROR_OUT_OF_MEMORY)
        ct_hook_alloc_exit(call, r);
    else
        ct_hook_leave(call);
}

#define CT_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_LAZY_HOOK(symbol, base, abi, ptsz, params, args)           \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params) {   \
        struct ct_hook_call call;                                     \
        if (!ct_hook_enter(&call, CT_ID_##symbol, CT_OP_MODULE_LOAD)) \
            return real args;                                         \
        const int measured = look_up_enter(&call);                    \
        const CUresult r = real args;                                 \
        look_up_exit(&call, r, measured);                             \
        return r;                                                     \
    }
#include "intercept/hooks.def"
