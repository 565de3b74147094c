// SPDX-License-Identifier: Apache-2.0
// The driver API as the test programs reach it: by symbol binding, or through a table of pointers
// that one of the ways in fills (load.c).
#ifndef WAYS_CU_H
#define WAYS_CU_H

#define __CUDA_API_VERSION_INTERNAL // every ABI variant under its exported name
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Needed by the programs, not interposed.
#define WAYS_PLAIN(X)                                                              \
    X(cuInit, (unsigned))                                                          \
    X(cuDriverGetVersion, (int *))                                                 \
    X(cuCtxSetCurrent, (CUcontext))                                                \
    X(cuStreamDestroy_v2, (CUstream))                                              \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                            \
    X(cuEventRecord, (CUevent, CUstream))                                          \
    X(cuGraphCreate, (CUgraph *, unsigned))                                        \
    X(cuGraphDestroy, (CUgraph))                                                   \
    X(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice))                       \
    X(cuMemPoolGetAttribute, (CUmemoryPool, CUmemPool_attribute, void *))          \
    X(cuDeviceGetDevResource, (CUdevice, CUdevResource *, CUdevResourceType))      \
    X(cuDevResourceGenerateDesc, (CUdevResourceDesc *, CUdevResource *, unsigned)) \
    X(cuGraphicsGLRegisterBuffer, (CUgraphicsResource *, unsigned, unsigned))

CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *, unsigned, unsigned);

struct cu {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) CUresult(CUDAAPI *symbol) params;
#include "../../preload/intercept/hooks.def"
#define WAYS_MEMBER(symbol, params) CUresult(CUDAAPI *symbol) params;
    WAYS_PLAIN(WAYS_MEMBER)
};

#ifdef WAYS_ELF
#define CU(symbol) symbol
#else
extern struct cu cu;
#define CU(symbol) (cu.symbol)
// Fills the table; exits with a message if the way is not there.
void load(const char *way);
#endif

// A call whose result is printed, so that runs can be compared.
#define T(symbol, ...) said(#symbol, CU(symbol)(__VA_ARGS__))
static inline CUresult said(const char *what, CUresult r) {
    printf("%s %d\n", what, (int)r);
    return r;
}

#define MIB ((size_t)1 << 20)

// cuInit, the primary context of the device, current in this thread.
static inline CUcontext start(int device) {
    CUcontext ctx = NULL;
    T(cuInit, 0);
    T(cuDevicePrimaryCtxRetain, &ctx, device);
    T(cuCtxSetCurrent, ctx);
    return ctx;
}

static inline CUdeviceptr take(size_t bytes) {
    CUdeviceptr p = 0;
    T(cuMemAlloc_v2, &p, bytes);
    return p;
}

struct scenario {
    const char *name;
    void (*run)(void);
};
extern const struct scenario scenarios[];

#endif
