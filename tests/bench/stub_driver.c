// SPDX-License-Identifier: Apache-2.0
// A driver for measuring: an allocation is exactly one malloc and a release exactly one free, so
// that a tracer of the heap sees the same events as a tracer of CUDA. One device, one context,
// nothing else.
#include <cuda.h>
#include <stdlib.h>

#include "stub_driver.h"

#define EXPORT __attribute__((visibility("default")))
#define TOTAL_BYTES ((size_t)80 << 30)

static char the_context;

EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    size_t *memory = malloc(STUB_BYTES); // its address is unique, as a device address must be
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = bytes;
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr pointer) {
    free((void *)(uintptr_t)pointer);
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = TOTAL_BYTES / 2;
    *total_bytes = TOTAL_BYTES;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuInit(unsigned int flags) {
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetCount(int *count) {
    *count = 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    *bytes = TOTAL_BYTES;
    return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context) {
    *context = (CUcontext)(void *)&the_context;
    return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
    *device = 0;
    return CUDA_SUCCESS;
}

// A launch does nothing at all.
EXPORT CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int gridDimX,
                                       unsigned int gridDimY, unsigned int gridDimZ,
                                       unsigned int blockDimX, unsigned int blockDimY,
                                       unsigned int blockDimZ, unsigned int sharedMemBytes,
                                       CUstream hStream, void **kernelParams, void **extra) {
    (void)gridDimX, (void)gridDimY, (void)gridDimZ, (void)blockDimX, (void)blockDimY,
        (void)blockDimZ;
    (void)sharedMemBytes, (void)hStream, (void)kernelParams, (void)extra;
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT void *stub_launch(void) {
    return (void *)cuLaunchKernel;
}
