// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress asked for several ABIs of one name: each caller must get the one that it will
// call.
#define _GNU_SOURCE
#include "cu.h"

#include <dlfcn.h>

typedef CUresult(CUDAAPI *resolver)(const char *, void **, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult *);

static void *driver;
static resolver get;

// Which export, if any, the answer is; "wrapped" where it is none of the driver's.
static void *ask(const char *base, int version, cuuint64_t flags) {
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    void *p = NULL;
    const CUresult r = get(base, &p, version, flags, &status);
    printf("%s %d %d: %d %d %s\n", base, version, (int)flags, (int)r, (int)status,
           p ? "found" : "none");
    return p;
}

static int in_driver(void *p) {
    Dl_info info;
    return dladdr(p, &info) && strstr(info.dli_fname, "libcuda.so.1") != NULL;
}

static void untouched(const char *base, int version, const char *symbol) {
    void *p = ask(base, version, 0);
    // The real one, by whatever means we know it: it lies in the driver.
    if (!p || !in_driver(p))
        printf("%s %d is not the driver's %s\n", base, version, symbol), exit(1);
}

int main(void) {
    CUcontext ctx = NULL;
    CUdeviceptr p = 0, q = 0;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return 77;
    get = (resolver)dlsym(driver, "cuGetProcAddress_v2");
    ask("", 0, 0); // as the runtime does first
    ask("cuNoSuchFunction", 13000, 0);
    ask("cuMemAlloc", 1000, 0); // not sufficient
    // 32-bit ABIs have no wrapper and must pass.
    untouched("cuMemAlloc", 2000, "cuMemAlloc");
    untouched("cuMemFree", 2000, "cuMemFree");
    untouched("cuMemGetInfo", 2000, "cuMemGetInfo");
    untouched("cuMemcpyHtoD", 3020, "cuMemcpyHtoD_v2");
    untouched("cuCtxGetDevice", 2000, "cuCtxGetDevice");
    // Two ABIs with different arguments.
    CUresult(CUDAAPI * old_sync)(void) =
        (CUresult(CUDAAPI *)(void))ask("cuCtxSynchronize", 2000, 0);
    CUresult(CUDAAPI * new_sync)(CUcontext) =
        (CUresult(CUDAAPI *)(CUcontext))ask("cuCtxSynchronize", 13000, 0);
    CUresult(CUDAAPI * init)(unsigned) = (CUresult(CUDAAPI *)(unsigned))ask("cuInit", 2000, 0);
    CUresult(CUDAAPI * retain)(CUcontext *, int) =
        (CUresult(CUDAAPI *)(CUcontext *, int))ask("cuDevicePrimaryCtxRetain", 7000, 0);
    CUresult(CUDAAPI * set)(CUcontext) =
        (CUresult(CUDAAPI *)(CUcontext))ask("cuCtxSetCurrent", 4000, 0);
    CUresult(CUDAAPI * alloc)(CUdeviceptr *, size_t) =
        (CUresult(CUDAAPI *)(CUdeviceptr *, size_t))ask("cuMemAlloc", 13000, 0);
    CUresult(CUDAAPI * async0)(CUdeviceptr *, size_t, CUstream) =
        (CUresult(CUDAAPI *)(CUdeviceptr *, size_t, CUstream))ask("cuMemAllocAsync", 11020, 0);
    CUresult(CUDAAPI * async2)(CUdeviceptr *, size_t, CUstream) =
        (CUresult(CUDAAPI *)(CUdeviceptr *, size_t, CUstream))ask(
            "cuMemAllocAsync", 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    // Created by hand, so that an argument too many or too few would be noticed by the driver.
    said("init", init(0));
    said("retain", retain(&ctx, 0));
    said("set", set(ctx));
    said("alloc", alloc(&p, MIB));
    said("async", async0(&q, MIB, NULL));
    said("async, per thread", async2(&q, 2 * MIB, NULL));
    said("synchronise", old_sync());
    said("synchronise a context", new_sync(ctx));
    said("synchronise no context", new_sync((CUcontext)(uintptr_t)0xbad));
    // The same question twice has the same answer.
    printf("%d\n", ask("cuMemAlloc", 13000, 0) == ask("cuMemAlloc", 12000, 0));
    // NULL for the status, as the runtime passes it.
    void *again = NULL;
    printf("%d\n", get("cuMemFree", &again, 3020, 0, NULL));
    printf("%d\n", ((CUresult(CUDAAPI *)(CUdeviceptr))again)(p));
    return 0;
}
