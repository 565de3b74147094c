// SPDX-License-Identifier: Apache-2.0
// The driver as these programs reach it: opened at run time, as workers do. `returned` reports to
// the simulated driver's ledger that the thread's last call has returned: from then on the trace
// must have it.
#ifndef DEATH_WORKER_H
#define DEATH_WORKER_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set_context)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*release)(CUdeviceptr);
    CUresult (*managed)(CUdeviceptr *, size_t, unsigned);
    CUresult (*pitched)(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
    void (*returned)(void);
} cu;

static inline void cu_find(void *driver, const char *name, void *slot) {
    void *found = dlsym(driver, name);
    if (!found)
        exit(3);
    *(void **)slot = found;
}

static inline void cu_load(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        exit(3);
    cu_find(driver, "cuInit", &cu.init);
    cu_find(driver, "cuDevicePrimaryCtxRetain", &cu.retain);
    cu_find(driver, "cuCtxSetCurrent", &cu.set_context);
    cu_find(driver, "cuMemAlloc_v2", &cu.alloc);
    cu_find(driver, "cuMemFree_v2", &cu.release);
    cu_find(driver, "cuMemAllocManaged", &cu.managed);
    cu_find(driver, "cuMemAllocPitch_v2", &cu.pitched);
    cu_find(driver, "sim_driver_returned", &cu.returned);
}

// cuInit and the primary context of device 0, current in this thread.
static inline CUcontext cu_begin(void) {
    CUcontext context = NULL;
    if (cu.init(0) || cu.retain(&context, 0))
        exit(3);
    cu.returned();
    cu.set_context(context);
    return context;
}

static inline CUcontext cu_start(void) {
    cu_load();
    return cu_begin();
}

static inline CUdeviceptr cu_take(size_t bytes) {
    CUdeviceptr p = 0;
    if (cu.alloc(&p, bytes))
        p = 0;
    cu.returned();
    return p;
}

static inline void cu_give(CUdeviceptr p) {
    (void)cu.release(p);
    cu.returned();
}

#endif
