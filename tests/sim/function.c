// SPDX-License-Identifier: Apache-2.0
// What a program asks of a function or kernel, and sets: nothing here takes memory. Every function
// is one of 32 registers without shared, local or constant memory, compiled for sm_90.
#include "module.h"

enum { CLUSTER_MOST = 16 };

// The value of a new function, and what may be set: nothing where highest is below lowest.
static const struct {
    int value, lowest, highest;
} rules[SIM_FUNCTION_ATTRIBUTES] = {
    [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = {1024, 0, -1},
    [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = {0, 0, -1},
    [CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = {0, 0, -1},
    [CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = {0, 0, -1},
    [CU_FUNC_ATTRIBUTE_NUM_REGS] = {32, 0, -1},
    [CU_FUNC_ATTRIBUTE_PTX_VERSION] = {90, 0, -1},
    [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = {90, 0, -1},
    [CU_FUNC_ATTRIBUTE_CACHE_MODE_CA] = {0, 0, -1},
    [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = {48 << 10, 0, 227 << 10},
    [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = {-1, -1, 100},
    [CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] = {0, 0, -1},
    [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = {0, 0, CLUSTER_MOST},
    [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT] = {0, 0, CLUSTER_MOST},
    [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] = {0, 0, CLUSTER_MOST},
    [CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] = {0, 0, 1},
    [CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] = {0, 0, 2},
};

static bool known(CUfunction_attribute attribute) {
    return (int)attribute >= 0 && (int)attribute < SIM_FUNCTION_ATTRIBUTES;
}

struct sim_function *sim_function_find(const void *handle) {
    struct sim_function *f = sim_object_find(handle, SIM_FUNCTION);
    return f ? f : sim_object_find(handle, SIM_KERNEL);
}

void sim_function_begin(struct sim_function *f) {
    for (int i = 0; i < SIM_FUNCTION_ATTRIBUTES; i++)
        f->attributes[i] = rules[i].value;
}

int sim_function_attribute(const struct sim_function *f, CUfunction_attribute attribute) {
    return f->kernel ? f->kernel->attributes[attribute] : f->attributes[attribute];
}

// ---- attributes -------------------------------------------------------------------------------

static CUresult get(struct sim_call *c, int *out, CUfunction_attribute attribute,
                    const struct sim_function *f) {
    SIM_REFUSE_IF(c, !out || !known(attribute), CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(c, !f, CUDA_ERROR_INVALID_HANDLE);
    if (!c->result)
        *out = sim_function_attribute(f, attribute);
    return sim_end(c);
}

static CUresult set(struct sim_call *c, struct sim_function *f, CUfunction_attribute attribute,
                    int value) {
    SIM_REFUSE_IF(c, !f, CUDA_ERROR_INVALID_HANDLE);
    if (!c->result &&
        (!known(attribute) || value < rules[attribute].lowest || value > rules[attribute].highest))
        c->result = CUDA_ERROR_INVALID_VALUE;
    if (!c->result)
        (f->kernel ? f->kernel : f)->attributes[attribute] = value;
    return sim_end(c);
}

// What only the loaded code says.
static bool needs_code(CUfunction_attribute attribute) {
    return attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ||
           attribute == CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES ||
           attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
}

CUresult CUDAAPI cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc) {
    SIM_BEGIN(NULL, CONTEXT);
    const struct sim_function *f = sim_function_find(hfunc);
    SIM_REFUSE_IF(&c, f && f->module && !f->module->loaded && needs_code(attrib),
                  CUDA_ERROR_FUNCTION_NOT_LOADED);
    return get(&c, pi, attrib, f);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
    SIM_BEGIN(NULL, CONTEXT);
    return set(&c, sim_function_find(hfunc), attrib, value);
}

// A kernel has attributes on each device; here they are the same on all.
static struct sim_function *begin_kernel(struct sim_call *c, const char *api, CUkernel kernel,
                                         CUdevice device) {
    sim_begin(c, api, NULL, SIM_NEED_INIT);
    SIM_REFUSE_IF(c, !sim_device_valid(device), CUDA_ERROR_INVALID_DEVICE);
    return sim_object_find(kernel, SIM_KERNEL);
}

CUresult CUDAAPI cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
                                      CUdevice dev) {
    struct sim_call c;
    const struct sim_function *k = begin_kernel(&c, __func__, kernel, dev);
    return get(&c, pi, attrib, k);
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                      CUdevice dev) {
    struct sim_call c;
    struct sim_function *k = begin_kernel(&c, __func__, kernel, dev);
    return set(&c, k, attrib, val);
}

// ---- preferences: checked, and without an effect ------------------------------------------------

static CUresult prefer(struct sim_call *c, const struct sim_function *f, unsigned value,
                       unsigned most) {
    SIM_REFUSE_IF(c, !f, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(c, value > most, CUDA_ERROR_INVALID_VALUE);
    return sim_end(c);
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
    SIM_BEGIN(NULL, CONTEXT);
    return prefer(&c, sim_function_find(hfunc), config, CU_FUNC_CACHE_PREFER_EQUAL);
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
    SIM_BEGIN(NULL, CONTEXT);
    return prefer(&c, sim_function_find(hfunc), config, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
    struct sim_call c;
    const struct sim_function *k = begin_kernel(&c, __func__, kernel, dev);
    return prefer(&c, k, config, CU_FUNC_CACHE_PREFER_EQUAL);
}

// ---- what it is and where it is from ------------------------------------------------------------

static CUresult name(const char *api, const char **out, const void *handle, enum sim_kind kind) {
    SIM_BEGIN_AS(api, NULL, INIT);
    const struct sim_function *f = sim_object_find(handle, kind);
    SIM_REFUSE_IF(&c, !out || !f, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *out = f->name;
    return sim_end(&c);
}

SIM_FORWARD(cuFuncGetName, (const char **out, CUfunction hfunc), name, out, hfunc, SIM_FUNCTION)
SIM_FORWARD(cuKernelGetName, (const char **out, CUkernel hfunc), name, out, hfunc, SIM_KERNEL)

CUresult CUDAAPI cuFuncGetModule(CUmodule *hmod, CUfunction hfunc) {
    SIM_BEGIN(NULL, CONTEXT);
    const struct sim_function *f = sim_object_find(hfunc, SIM_FUNCTION);
    SIM_REFUSE_IF(&c, !hmod, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !f, CUDA_ERROR_NOT_FOUND);
    if (!c.result)
        *hmod = (CUmodule)f->module;
    return sim_end(&c);
}

#if CUDA_VERSION >= 12050
CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
    SIM_BEGIN(NULL, INIT);
    const struct sim_function *k = sim_object_find(kernel, SIM_KERNEL);
    SIM_REFUSE_IF(&c, !pLib, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !k, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result)
        *pLib = (CUlibrary)k->library;
    return sim_end(&c);
}
#endif

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
    SIM_BEGIN(NULL, INIT);
    const struct sim_function *f = sim_object_find(function, SIM_FUNCTION);
    SIM_REFUSE_IF(&c, !f, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(&c, !state, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *state = f->module->loaded ? CU_FUNCTION_LOADING_STATE_LOADED
                                   : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return sim_end(&c);
}

// ---- all functions of a module, and all kernels of a library: "kernel", and those that were asked
// for ---

static struct {
    const void *owner;
    void **out;
    size_t count, capacity;
} found;

static void collect(void *object) {
    struct sim_function *f = object;
    if ((f->module ? (void *)f->module : (void *)f->library) != found.owner)
        return;
    if (found.count < found.capacity)
        found.out[found.count] = f;
    found.count++;
}

// Into `out`, or only their number into *count.
static CUresult list(const char *api, const void *owner, bool kernels, void *out, size_t capacity,
                     unsigned *count) {
    SIM_BEGIN_AS(api, NULL, INIT);
    struct sim_module *m = kernels ? NULL : sim_object_find(owner, SIM_MODULE);
    struct sim_library *l = kernels ? sim_object_find(owner, SIM_LIBRARY) : NULL;
    SIM_REFUSE_IF(&c, !out && !count, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !m && !l, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result) {
        sim_function_get(m, l, "kernel");
        found.owner = owner;
        found.out = out;
        found.count = 0;
        found.capacity = out ? capacity : 0;
        sim_object_each(NULL, kernels ? SIM_KERNEL : SIM_FUNCTION, collect);
    }
    if (!c.result && count)
        *count = (unsigned)found.count;
    return sim_end(&c);
}

SIM_FORWARD(cuModuleGetFunctionCount, (unsigned int *count, CUmodule mod), list, mod, false, NULL,
            0, count)
SIM_FORWARD(cuModuleEnumerateFunctions,
            (CUfunction * functions, unsigned int numFunctions, CUmodule mod), list, mod, false,
            functions, numFunctions, NULL)
SIM_FORWARD(cuLibraryGetKernelCount, (unsigned int *count, CUlibrary lib), list, lib, true, NULL, 0,
            count)
SIM_FORWARD(cuLibraryEnumerateKernels, (CUkernel * kernels, unsigned int numKernels, CUlibrary lib),
            list, lib, true, kernels, numKernels, NULL)
