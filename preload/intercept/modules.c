// SPDX-License-Identifier: Apache-2.0
// Hooks on modules and libraries. Code and static data occupy device memory without an address, so
// free memory is measured before and after the load. Code that is loaded lazily, at a look-up or a
// first launch, is in lazy_load.c and oom_only.c.
#define _GNU_SOURCE
#include "intercept/hook_scope.h"

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
