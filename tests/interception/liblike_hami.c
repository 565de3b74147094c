// SPDX-License-Identifier: Apache-2.0
// Looks like HAMi-core: takes over dlsym by a real call (not a jump), hands out its own driver
// functions by every resolver, and fails allocations over its limit before they reach the driver.
#define _GNU_SOURCE
#include "cu.h"

#include <dlfcn.h>

#define LIMIT (100 * MIB)

typedef void *dlsym_fn(void *, const char *);
static size_t used;

static dlsym_fn *real_dlsym(void) {
    static dlsym_fn *real;
    if (!real)
        real = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!real)
        real = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    return real;
}

static void *driver(const char *name) {
    static void *handle;
    if (!handle)
        handle = dlopen("libcuda.so.1", RTLD_NOW);
    return handle ? real_dlsym()(handle, name) : NULL;
}

static CUresult my_alloc(CUdeviceptr *p, size_t bytes) {
    if (used + bytes > LIMIT)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult (*real)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))driver("cuMemAlloc_v2");
    const CUresult r = real(p, bytes);
    if (!r)
        used += bytes;
    return r;
}

static CUresult my_info(size_t *free_bytes, size_t *total) {
    CUresult (*real)(size_t *, size_t *) =
        (CUresult(*)(size_t *, size_t *))driver("cuMemGetInfo_v2");
    const CUresult r = real(free_bytes, total);
    if (!r && free_bytes && total) {
        *free_bytes = LIMIT - used;
        *total = LIMIT;
    }
    return r;
}

static CUresult my_resolver(const char *symbol, void **pfn, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *status);

static CUresult resolver_of_11(const char *symbol, void **pfn, int version, cuuint64_t flags);

static void *mine(const char *name) {
    if (!strcmp(name, "cuMemAlloc_v2") || !strcmp(name, "cuMemAlloc"))
        return (void *)cuMemAlloc_v2;
    if (!strcmp(name, "cuMemGetInfo_v2") || !strcmp(name, "cuMemGetInfo"))
        return (void *)cuMemGetInfo_v2;
    if (!strcmp(name, "cuGetProcAddress_v2"))
        return (void *)cuGetProcAddress_v2;
    if (!strcmp(name, "cuGetProcAddress"))
        return (void *)resolver_of_11;
    return NULL;
}

// The resolver of CUDA 11 has a parameter less than that of CUDA 12.
static void replace(const char *symbol, void **pfn, int version, CUresult result) {
    const int is_v2 = !strcmp(symbol, "cuGetProcAddress") && version >= 12000;
    void *own = mine(is_v2 ? "cuGetProcAddress_v2" : symbol);
    if (!result && own && version >= 3020)
        *pfn = own;
}

static CUresult my_resolver(const char *symbol, void **pfn, int version, cuuint64_t flags,
                            CUdriverProcAddressQueryResult *status) {
    CUresult (*real)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
        (CUresult(*)(const char *, void **, int, cuuint64_t,
                     CUdriverProcAddressQueryResult *))driver("cuGetProcAddress_v2");
    const CUresult r = real(symbol, pfn, version, flags, status);
    replace(symbol, pfn, version, r);
    return r;
}

static CUresult resolver_of_11(const char *symbol, void **pfn, int version, cuuint64_t flags) {
    CUresult (*real)(const char *, void **, int, cuuint64_t) =
        (CUresult(*)(const char *, void **, int, cuuint64_t))driver("cuGetProcAddress");
    const CUresult r = real(symbol, pfn, version, flags);
    replace(symbol, pfn, version, r);
    return r;
}

void *dlsym(void *handle, const char *name);
void *dlsym(void *handle, const char *name) {
    void *own = name[0] == 'c' && name[1] == 'u' ? mine(name) : NULL;
    void *p = real_dlsym()(handle, name);
    return p && own ? own : p;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
    return my_alloc(p, bytes);
}

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    return my_info(free_bytes, total);
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *status) {
    return my_resolver(symbol, pfn, version, flags, status);
}
