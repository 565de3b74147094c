// SPDX-License-Identifier: Apache-2.0
// What nvcc's host code calls: registration of kernels and variables, and launches. Kernels are
// looked up in the driver at their first launch, and are not run.
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGURATIONS 16

typedef struct CUkern_st *kernel_handle;

struct image { // one fat binary
    const void *data;
    CUlibrary library;
};

struct symbol { // a kernel's host function, or a variable's shadow on the host
    const void *host;
    const char *name;
    struct image *image;
    CUkernel kernel;
    struct symbol *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct symbol *symbols;

// No header declares what nvcc's code calls.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

// ---- registration: before main, so nothing of the driver is touched -----------------------------

static void add_symbol(void **handle, const void *host, const char *name) {
    struct symbol *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->host = host;
    s->name = name;
    s->image = (struct image *)handle;
    pthread_mutex_lock(&lock);
    s->next = symbols;
    symbols = s;
    pthread_mutex_unlock(&lock);
}

void **__cudaRegisterFatBinary(void *fatCubin) {
    struct image *image = calloc(1, sizeof *image);
    if (!image)
        abort();
    image->data = fatCubin;
    return (void **)image;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
}

// At exit. What the real runtime does then has not been observed; this unloads what it loaded.
void __cudaUnregisterFatBinary(void **handle) {
    struct image *image = (struct image *)handle;
    pthread_mutex_lock(&lock);
    for (struct symbol **link = &symbols; *link;) {
        struct symbol *s = *link;
        if (s->image != image) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        free(s);
    }
    pthread_mutex_unlock(&lock);
    if (image->library)
        CALL(cuLibraryUnload, 12000, image->library);
    free(image);
}

void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, void *tid, void *bid,
                            dim3 *bDim, dim3 *gDim, int *wSize) {
    add_symbol(handle, hostFun, deviceName);
}

void __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress, const char *deviceName,
                       int ext, size_t size, int constant, int global) {
    add_symbol(handle, hostVar, deviceName);
}

void __cudaRegisterManagedVar(void **handle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global) {
    add_symbol(handle, hostVarPtrAddress, deviceName);
}

void __cudaRegisterHostVar(void **handle, const char *deviceName, char *hostVar, size_t size) {
}

char __cudaInitModule(void **handle) {
    return 1;
}

// ---- finding what was registered ----------------------------------------------------------------

static struct symbol *find(const void *host) {
    struct symbol *s = symbols;
    while (s && s->host != host)
        s = s->next;
    return s;
}

static CUresult load(struct image *image) {
    if (image->library)
        return CUDA_SUCCESS;
    return CALL(cuLibraryLoadData, 12000, &image->library, image->data, NULL, NULL, 0, NULL, NULL,
                0);
}

CUresult simrt_function(const void *host, CUfunction *function) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct symbol *s = find(host);
    if (!s)
        result = (CUresult)cudaErrorInvalidDeviceFunction;
    if (!result)
        result = load(s->image);
    if (!result && !s->kernel)
        result = CALL(cuLibraryGetKernel, 12000, &s->kernel, s->image->library, s->name);
    if (!result)
        *function = (CUfunction)s->kernel;
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult variable(const void *host, CUdeviceptr *address, size_t *size) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct symbol *s = find(host);
    if (!s)
        result = (CUresult)cudaErrorInvalidSymbol;
    if (!result)
        result = load(s->image);
    if (!result)
        result = CALL(cuLibraryGetGlobal, 12000, address, size, s->image->library, s->name);
    pthread_mutex_unlock(&lock);
    return result;
}

WITH_CONTEXT(cudaGetSymbolAddress, (void **devPtr, const void *symbol),
             variable(symbol, (CUdeviceptr *)devPtr, NULL))
WITH_CONTEXT(cudaGetSymbolSize, (size_t * size, const void *symbol), variable(symbol, NULL, size))

static cudaError_t symbol_copy(const void *symbol, size_t offset, void *host, size_t count,
                               bool to) {
    CUdeviceptr p = 0;
    RETURN_IF_NO_CONTEXT;
    CUresult result = variable(symbol, &p, NULL);
    if (!result)
        result = to ? CALL(cuMemcpyHtoD, 3020, p + offset, host, count)
                    : CALL(cuMemcpyDtoH, 3020, host, p + offset, count);
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count,
                                         size_t offset, enum cudaMemcpyKind kind) {
    return symbol_copy(symbol, offset, (void *)(uintptr_t)src, count, true);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count,
                                           size_t offset, enum cudaMemcpyKind kind) {
    return symbol_copy(symbol, offset, dst, count, false);
}

// ---- launches -----------------------------------------------------------------------------------

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configurations[CONFIGURATIONS];
static _Thread_local unsigned depth;

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     struct CUstream_st *stream) {
    if (depth == CONFIGURATIONS)
        return 1;
    configurations[depth].grid = gridDim;
    configurations[depth].block = blockDim;
    configurations[depth].shared = sharedMem;
    configurations[depth++].stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                       void *stream) {
    if (!depth)
        return cudaErrorMissingConfiguration;
    depth--;
    *gridDim = configurations[depth].grid;
    *blockDim = configurations[depth].block;
    *sharedMem = configurations[depth].shared;
    *(cudaStream_t *)stream = configurations[depth].stream;
    return cudaSuccess;
}

static cudaError_t launch(bool pt, CUfunction f, dim3 g, dim3 b, void **args, size_t shared,
                          cudaStream_t s) {
    return simrt_done(CALL_PTSZ(pt, cuLaunchKernel, 4000, 7000, f, g.x, g.y, g.z, b.x, b.y, b.z,
                                (unsigned)shared, s, args, NULL));
}

// A host function stands for its kernel until the launch: a context may not be there yet.
cudaError_t __cudaGetKernel(kernel_handle *kernel, const void *host) {
    *kernel = (kernel_handle)(uintptr_t)host;
    return cudaSuccess;
}

static cudaError_t do_cudaLaunchKernel(bool pt, const void *host, dim3 g, dim3 b, void **args,
                                       size_t shared, cudaStream_t s) {
    CUfunction f = NULL;
    RETURN_IF_NO_CONTEXT;
    CUresult result = simrt_function(host, &f);
    return result ? simrt_done(result) : launch(pt, f, g, b, args, shared, s);
}
TWO(cudaLaunchKernel,
    (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
     cudaStream_t stream),
    func, gridDim, blockDim, args, sharedMem, stream)

cudaError_t __cudaLaunchKernel(kernel_handle kernel, dim3 gridDim, dim3 blockDim, void **args,
                               size_t sharedMem, cudaStream_t stream) {
    return do_cudaLaunchKernel(false, kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(kernel_handle kernel, dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem, cudaStream_t stream) {
    return do_cudaLaunchKernel(true, kernel, gridDim, blockDim, args, sharedMem, stream);
}

static cudaError_t do_cudaLaunchCooperativeKernel(bool pt, const void *host, dim3 g, dim3 b,
                                                  void **args, size_t shared, cudaStream_t s) {
    CUfunction f = NULL;
    RETURN_IF_NO_CONTEXT;
    CUresult result = simrt_function(host, &f);
    if (!result)
        result = CALL_PTSZ(pt, cuLaunchCooperativeKernel, 9000, 9000, f, g.x, g.y, g.z, b.x, b.y,
                           b.z, (unsigned)shared, s, args);
    return simrt_done(result);
}
TWO(cudaLaunchCooperativeKernel,
    (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
     cudaStream_t stream),
    func, gridDim, blockDim, args, sharedMem, stream)

static cudaError_t do_cudaLaunchKernelExC(bool pt, const cudaLaunchConfig_t *config,
                                          const void *host, void **args) {
    return do_cudaLaunchKernel(pt, host, config->gridDim, config->blockDim, args,
                               config->dynamicSmemBytes, config->stream);
}
TWO(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *func, void **args), config,
    func, args)

// ---- libraries ----------------------------------------------------------------------------------

#if CUDART_VERSION >= 12080
WITH_CONTEXT(cudaLibraryLoadData,
             (cudaLibrary_t * library, const void *code, enum cudaJitOption *jitOptions,
              void **jitOptionsValues, unsigned int numJitOptions,
              enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
              unsigned int numLibraryOptions),
             CALL(cuLibraryLoadData, 12000, (CUlibrary *)library, code,
                  (CUjit_option *)(void *)jitOptions, jitOptionsValues, numJitOptions,
                  (CUlibraryOption *)(void *)libraryOptions, libraryOptionValues,
                  numLibraryOptions))
WITH_CONTEXT(cudaLibraryLoadFromFile,
             (cudaLibrary_t * library, const char *fileName, enum cudaJitOption *jitOptions,
              void **jitOptionsValues, unsigned int numJitOptions,
              enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
              unsigned int numLibraryOptions),
             CALL(cuLibraryLoadFromFile, 12000, (CUlibrary *)library, fileName,
                  (CUjit_option *)(void *)jitOptions, jitOptionsValues, numJitOptions,
                  (CUlibraryOption *)(void *)libraryOptions, libraryOptionValues,
                  numLibraryOptions))
WITH_CONTEXT(cudaLibraryGetKernel,
             (cudaKernel_t * pKernel, cudaLibrary_t library, const char *name),
             CALL(cuLibraryGetKernel, 12000, (CUkernel *)pKernel, (CUlibrary)library, name))
WITH_CONTEXT(cudaKernelSetAttributeForDevice,
             (cudaKernel_t kernel, enum cudaFuncAttribute attr, int value, int device),
             CALL(cuKernelSetAttribute, 12000, (CUfunction_attribute)attr, value, (CUkernel)kernel,
                  device))
WITH_CONTEXT(cudaLibraryUnload, (cudaLibrary_t library),
             CALL(cuLibraryUnload, 12000, (CUlibrary)library))
WITH_CONTEXT(cudaLibraryGetGlobal,
             (void **dptr, size_t *bytes, cudaLibrary_t library, const char *name),
             CALL(cuLibraryGetGlobal, 12000, (CUdeviceptr *)dptr, bytes, (CUlibrary)library, name))
WITH_CONTEXT(cudaLibraryGetManaged,
             (void **dptr, size_t *bytes, cudaLibrary_t library, const char *name),
             CALL(cuLibraryGetManaged, 12000, (CUdeviceptr *)dptr, bytes, (CUlibrary)library, name))
#endif
