// SPDX-License-Identifier: Apache-2.0
// Modules and libraries: code takes device memory when it is loaded, or, with lazy loading, when
// its first function is needed. Any image is accepted and none is run.
#include "module.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GLOBAL_BYTES 256 // size of every __device__ variable

struct global {
    struct sim_object o;
    struct sim_module *module;
    struct sim_range *memory;
    char name[64];
};

// ---- loading ------------------------------------------------------------------------------------

static CUresult load(struct sim_module *m) {
    if (m->loaded)
        return CUDA_SUCCESS;
    if (!sim_charge(m->o.device, sim_param.module))
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->loaded = true;
    return CUDA_SUCCESS;
}

static struct sim_module *new_module(struct sim_context *ctx, struct sim_library *library,
                                     CUresult *result) {
    struct sim_module *m = sim_object_new(sizeof *m, SIM_MODULE, ctx, ctx->o.device);
    m->library = library;
    *result = sim_param.lazy_modules ? CUDA_SUCCESS : load(m);
    if (*result)
        sim_object_delete(m);
    return *result ? NULL : m;
}

static struct sim_module *unloading;

static void end_function(void *object) {
    struct sim_function *f = object;
    if (f->module == unloading)
        sim_object_delete(f);
}

static void end_global(void *object) {
    struct global *g = object;
    if (g->module != unloading)
        return;
    sim_memory_give(g->memory);
    sim_object_delete(g);
}

static void end_module(void *object) {
    struct sim_module *m = object;
    unloading = m;
    sim_object_each(NULL, SIM_FUNCTION, end_function);
    sim_object_each(NULL, SIM_GLOBAL, end_global);
    if (m->loaded)
        sim_discharge(m->o.device, sim_param.module);
    sim_object_delete(m);
}

void sim_module_end_context(struct sim_context *ctx) {
    sim_object_each(ctx, SIM_MODULE, end_module);
}

static void load_module(struct sim_call *c, CUmodule *out, const void *image) {
    if (!c->result)
        c->result = sim_capture_unsafe();
    SIM_REFUSE_IF(c, !out || !image, CUDA_ERROR_INVALID_VALUE);
    if (!c->result) {
        struct sim_module *m = new_module(sim_owner(c->ctx), NULL, &c->result);
        if (m) {
            *out = (CUmodule)m;
            sim_set_object(c, m);
        }
    }
}

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *fname) {
    SIM_BEGIN("module-load", CONTEXT);
    SIM_REFUSE_IF(&c, fname && access(fname, R_OK) != 0, CUDA_ERROR_FILE_NOT_FOUND);
    load_module(&c, module, fname);
    return sim_end(&c);
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
    SIM_BEGIN("module-load", CONTEXT);
    load_module(&c, module, image);
    return sim_end(&c);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                    CUjit_option *options, void **optionValues) {
    SIM_BEGIN("module-load", CONTEXT);
    load_module(&c, module, image);
    return sim_end(&c);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
    SIM_BEGIN("module-load", CONTEXT);
    load_module(&c, module, fatCubin);
    return sim_end(&c);
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod) {
    SIM_BEGIN("module-unload", CONTEXT);
    struct sim_module *m = sim_object_find(hmod, SIM_MODULE);
    sim_set_object(&c, hmod);
    if (m)
        sim_set_device(&c, m->o.device);
    SIM_REFUSE_IF(&c, !m || m->library, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result)
        end_module(m);
    return sim_end(&c);
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !mode, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        *mode = sim_param.lazy_modules ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
    return sim_end(&c);
}

// ---- functions and variables --------------------------------------------------------------------

// A name that begins with "missing" is in no module.
static bool exists(const char *name) {
    return strncmp(name, "missing", 7) != 0;
}

static const char *wanted_name;
static const void *wanted_owner;
static void *found;

static void match_function(void *object) {
    struct sim_function *f = object;
    const void *owner = f->module ? (void *)f->module : (void *)f->library;
    if (owner == wanted_owner && strcmp(f->name, wanted_name) == 0)
        found = f;
}

static void match_global(void *object) {
    struct global *g = object;
    if (g->module == wanted_owner && strcmp(g->name, wanted_name) == 0)
        found = g;
}

static void *look_for(enum sim_kind kind, const void *owner, const char *name,
                      void (*match)(void *object)) {
    wanted_name = name;
    wanted_owner = owner;
    found = NULL;
    sim_object_each(NULL, kind, match);
    return found;
}

struct sim_function *sim_function_get(struct sim_module *m, struct sim_library *library,
                                      const char *name) {
    enum sim_kind kind = m ? SIM_FUNCTION : SIM_KERNEL;
    struct sim_function *f = look_for(kind, m ? (void *)m : (void *)library, name, match_function);
    if (!f) {
        f = sim_object_new(sizeof *f, kind, NULL, m ? m->o.device : 0);
        f->module = m;
        f->library = library;
        sim_function_begin(f);
        strncpy(f->name, name, sizeof f->name - 1);
    }
    return f;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
    SIM_BEGIN(NULL, CONTEXT);
    struct sim_module *m = sim_object_find(hmod, SIM_MODULE);
    SIM_REFUSE_IF(&c, !m, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(&c, !hfunc || !name, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !exists(name), CUDA_ERROR_NOT_FOUND);
    if (!c.result)
        c.result = load(m);
    if (!c.result)
        *hfunc = (CUfunction)sim_function_get(m, NULL, name);
    return sim_end(&c);
}

static struct global *global_of(struct sim_module *m, const char *name, CUresult *result) {
    struct global *g = look_for(SIM_GLOBAL, m, name, match_global);
    if (g)
        return g;
    struct sim_range *memory = sim_memory_take(m->o.device, GLOBAL_BYTES, result);
    if (!memory)
        return NULL;
    memory->kind = SIM_RANGE_GLOBAL;
    g = sim_object_new(sizeof *g, SIM_GLOBAL, NULL, m->o.device);
    g->module = m;
    g->memory = memory;
    strncpy(g->name, name, sizeof g->name - 1);
    return g;
}

static CUresult get_global(struct sim_call *c, struct sim_module *m, CUdeviceptr *dptr,
                           size_t *bytes, const char *name) {
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!exists(name))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = load(m);
    struct global *g = result ? NULL : global_of(m, name, &result);
    if (g && dptr)
        *dptr = g->memory->base;
    if (g && bytes)
        *bytes = GLOBAL_BYTES;
    return result;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
                                      const char *name) {
    SIM_BEGIN(NULL, CONTEXT);
    struct sim_module *m = sim_object_find(hmod, SIM_MODULE);
    SIM_REFUSE_IF(&c, !m, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result)
        c.result = get_global(&c, m, dptr, bytes, name);
    return sim_end(&c);
}

// ---- libraries: code that is loaded into each context that needs it -----------------------------

static struct sim_library *wanted_library;
static struct sim_context *wanted_context;

static void match_module(void *object) {
    struct sim_module *m = object;
    if (m->library == wanted_library && m->o.ctx == wanted_context)
        found = m;
}

static struct sim_module *module_of(struct sim_library *l, struct sim_context *ctx,
                                    CUresult *result) {
    found = NULL;
    wanted_library = l;
    wanted_context = ctx;
    sim_object_each(NULL, SIM_MODULE, match_module);
    return found ? found : new_module(ctx, l, result);
}

static CUresult load_library(const char *api, CUlibrary *out, const void *code, bool missing_file) {
    SIM_BEGIN_AS(api, "module-load", INIT);
    SIM_REFUSE_IF(&c, !out || !code, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, missing_file, CUDA_ERROR_FILE_NOT_FOUND);
    if (!c.result) {
        struct sim_library *l = sim_object_new(sizeof *l, SIM_LIBRARY, NULL, 0);
        if (c.ctx && !sim_param.lazy_modules)
            module_of(l, sim_owner(c.ctx), &c.result);
        if (c.result) {
            sim_object_delete(l);
        } else {
            *out = (CUlibrary)l;
            sim_set_object(&c, l);
        }
    }
    return sim_end(&c);
}

SIM_FORWARD(cuLibraryLoadData,
            (CUlibrary * library, const void *code, CUjit_option *jitOptions,
             void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
             void **libraryOptionValues, unsigned int numLibraryOptions),
            load_library, library, code, false)
SIM_FORWARD(cuLibraryLoadFromFile,
            (CUlibrary * library, const char *fileName, CUjit_option *jitOptions,
             void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
             void **libraryOptionValues, unsigned int numLibraryOptions),
            load_library, library, fileName, fileName &&access(fileName, R_OK) != 0)

static void end_library_module(void *object) {
    struct sim_module *m = object;
    if (m->library == wanted_library)
        end_module(m);
}

static void end_kernel(void *object) {
    struct sim_function *f = object;
    if (f->library == wanted_library)
        sim_object_delete(f);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
    SIM_BEGIN("module-unload", INIT);
    struct sim_library *l = sim_object_find(library, SIM_LIBRARY);
    sim_set_object(&c, library);
    SIM_REFUSE_IF(&c, !l, CUDA_ERROR_INVALID_HANDLE);
    if (!c.result) {
        wanted_library = l;
        sim_object_each(NULL, SIM_MODULE, end_library_module);
        sim_object_each(NULL, SIM_KERNEL, end_kernel);
        sim_object_delete(l);
    }
    return sim_end(&c);
}

// Begins a call on a library that needs its module in the current context.
static struct sim_module *begin_library(struct sim_call *c, const char *api, CUlibrary library) {
    sim_begin(c, api, NULL, SIM_NEED_CONTEXT);
    struct sim_library *l = sim_object_find(library, SIM_LIBRARY);
    SIM_REFUSE_IF(c, !l, CUDA_ERROR_INVALID_HANDLE);
    return c->result ? NULL : module_of(l, sim_owner(c->ctx), &c->result);
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
    struct sim_call c;
    struct sim_module *m = begin_library(&c, __func__, library);
    SIM_REFUSE_IF(&c, !pMod, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        c.result = load(m);
    if (!c.result)
        *pMod = (CUmodule)m;
    return sim_end(&c);
}

static CUresult library_variable(const char *api, CUdeviceptr *dptr, size_t *bytes,
                                 CUlibrary library, const char *name) {
    struct sim_call c;
    struct sim_module *m = begin_library(&c, api, library);
    if (!c.result)
        c.result = get_global(&c, m, dptr, bytes, name);
    return sim_end(&c);
}

SIM_FORWARD(cuLibraryGetGlobal,
            (CUdeviceptr * dptr, size_t *bytes, CUlibrary library, const char *name),
            library_variable, dptr, bytes, library, name)
SIM_FORWARD(cuLibraryGetManaged,
            (CUdeviceptr * dptr, size_t *bytes, CUlibrary library, const char *name),
            library_variable, dptr, bytes, library, name)

// By the header a kernel needs no context and is loaded into one later. SIM_KERNELS_LOAD: at once.
static CUresult load_early(struct sim_library *l, struct sim_context *ctx) {
    CUresult result = CUDA_SUCCESS;
    if (!sim_param.kernels_load || !ctx)
        return result;
    struct sim_module *m = module_of(l, sim_owner(ctx), &result);
    return m ? load(m) : result;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
    SIM_BEGIN(NULL, INIT);
    struct sim_library *l = sim_object_find(library, SIM_LIBRARY);
    SIM_REFUSE_IF(&c, !l, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(&c, !pKernel || !name, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(&c, !exists(name), CUDA_ERROR_NOT_FOUND);
    if (!c.result)
        c.result = load_early(l, c.ctx);
    if (!c.result)
        *pKernel = (CUkernel)sim_function_get(NULL, l, name);
    return sim_end(&c);
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
    SIM_BEGIN(NULL, CONTEXT);
    struct sim_function *k = sim_object_find(kernel, SIM_KERNEL);
    struct sim_module *m = NULL;
    SIM_REFUSE_IF(&c, !k, CUDA_ERROR_INVALID_HANDLE);
    SIM_REFUSE_IF(&c, !pFunc, CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        m = module_of(k->library, sim_owner(c.ctx), &c.result);
    if (!c.result)
        c.result = load(m);
    if (!c.result) {
        struct sim_function *f = sim_function_get(m, NULL, k->name);
        f->kernel = k;
        *pFunc = (CUfunction)f;
    }
    return sim_end(&c);
}

CUresult sim_function_load(CUfunction function, struct sim_context *ctx) {
    CUresult result = CUDA_SUCCESS;
    struct sim_function *f = sim_object_find(function, SIM_FUNCTION);
    struct sim_function *k = f ? NULL : sim_object_find(function, SIM_KERNEL);
    if (f)
        return load(f->module);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_module *m = module_of(k->library, sim_owner(ctx), &result);
    return m ? load(m) : result;
}

#if CUDA_VERSION >= 12040
CUresult CUDAAPI cuFuncLoad(CUfunction function) {
    SIM_BEGIN(NULL, CONTEXT);
    if (!c.result)
        c.result = sim_function_load(function, c.ctx);
    return sim_end(&c);
}
#endif
