// SPDX-License-Identifier: Apache-2.0
// An interposer that comes after libcutrace.so and finds the driver by dlopen and dlsym: one call
// goes through two wrappers of libcutrace.so, one in front of this function and one behind it.
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    CUresult(CUDAAPI * real)(CUdeviceptr *, size_t);
    *(void **)&real = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    return real(dptr, bytesize);
}
