// SPDX-License-Identifier: Apache-2.0
// Prints what a call leaves in errno and in dlerror.
#define _GNU_SOURCE
#include "cu.h"

#include <dlfcn.h>
#include <errno.h>

#define E(symbol, ...)                                        \
    do {                                                      \
        errno = 4711;                                         \
        CUresult e_r = CU(symbol)(__VA_ARGS__);               \
        printf("%s %d errno %d\n", #symbol, (int)e_r, errno); \
    } while (0)

int main(void) {
    CUcontext ctx = NULL;
    CUdeviceptr p = 0, q = 0;
    CUmemoryPool pool = NULL;
    CUmodule module = NULL;
    CUfunction function = NULL;
    CUstream stream = NULL;
    CUevent event = NULL;
    size_t a, b;
    void *fn = NULL;
    dlerror();
    E(cuInit, 0);
    E(cuDevicePrimaryCtxRetain, &ctx, 0);
    E(cuCtxSetCurrent, ctx);
    E(cuMemAlloc_v2, &p, MIB);
    E(cuMemAlloc_v2, &q, (size_t)1 << 50);
    E(cuMemAlloc_v2, &q, (size_t)1 << 50);
    E(cuMemFree_v2, p);
    E(cuMemFree_v2, p);
    E(cuMemAllocAsync, &p, MIB, NULL);
    E(cuMemFreeAsync, p, NULL);
    E(cuCtxSynchronize);
    E(cuMemGetInfo_v2, &a, &b);
    E(cuMemPoolDestroy, pool);
    E(cuModuleLoadData, &module, "code");
    E(cuModuleGetFunction, &function, module, "kernel");
    E(cuModuleGetFunction, &function, module, "missing");
    E(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    E(cuStreamCreate, &stream, 0);
    E(cuEventCreate, &event, 0);
    E(cuGetProcAddress_v2, "cuMemAlloc", &fn, 12000, 0, NULL);
    E(cuDevicePrimaryCtxRelease_v2, 0);
    // No error of ours is left for the host to find...
    const char *left = dlerror();
    printf("dlerror %s\n", left ? left : "none");
    // ...and the idiom for symbols that may be NULL works.
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    const char *names[] = {"cuMemAlloc_v2", "cuNoSuchFunction", "cuMemFree_v2",
                           "cuMulticastBindNothing"};
    for (int i = 0; i < 4; i++) {
        dlerror();
        errno = 4711;
        fn = dlsym(driver, names[i]);
        const int e = errno;
        left = dlerror();
        printf("%s %s, errno %d, %s\n", names[i], fn ? "found" : "none", e,
               left ? strrchr(left, '/') : "no error");
    }
    errno = 4711;
    fn = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    printf("default %s errno %d\n", fn ? "found" : "none", errno);
    return 0;
}
