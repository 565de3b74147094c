// SPDX-License-Identifier: Apache-2.0
// A driver that does nothing: no lock, no system call, no memory. Every effect of a call comes from
// the tracer, and a signal handler may leave each call or make one. It counts those for memory.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdatomic.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT _Atomic unsigned long driver_calls;

EXPORT void sim_driver_returned(void);
EXPORT void sim_driver_returned(void) {
}
EXPORT CUresult CUDAAPI cuInit(unsigned flags) {
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = (CUcontext)0x1000;
    return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
    (void)context;
    return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context) {
    *context = (CUcontext)0x1000;
    return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
    *device = 0;
    return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    *free_bytes = (size_t)1 << 33;
    *total = (size_t)1 << 34;
    return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
    static _Atomic CUdeviceptr next = 0x700000000000;
    *p = atomic_fetch_add(&next, bytes);
    atomic_fetch_add(&driver_calls, 1);
    return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr p) {
    atomic_fetch_add(&driver_calls, 1);
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned flags) {
    return flags ? cuMemAlloc_v2(p, bytes) : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width,
                                           size_t height, unsigned element) {
    *pitch = (width + 511) / 512 * 512;
    return element ? cuMemAlloc_v2(p, *pitch * height) : CUDA_ERROR_INVALID_VALUE;
}
