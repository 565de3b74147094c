// SPDX-License-Identifier: Apache-2.0
// The runtime API, one thing at a time, with a ledger of its own:
//   runtime all | init | malloc | free | malloc-async | reset | exit
// Compiled as C, without CUDA's headers, or as CUDA C++ by nvcc.
#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include <stddef.h>
typedef struct CUstream_st *cudaStream_t;
typedef struct cudaArray *cudaArray_t;
struct cudaChannelFormatDesc {
    int x, y, z, w, f;
};
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMallocAsync(void **, size_t, cudaStream_t);
int cudaFreeAsync(void *, cudaStream_t);
int cudaMallocManaged(void **, size_t, unsigned);
int cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaHostAlloc(void **, size_t, unsigned);
int cudaFreeHost(void *);
int cudaMallocArray(cudaArray_t *, const struct cudaChannelFormatDesc *, size_t, size_t, unsigned);
int cudaFreeArray(cudaArray_t);
int cudaMemGetInfo(size_t *, size_t *);
int cudaStreamSynchronize(cudaStream_t);
int cudaDeviceReset(void);
#endif
#include "ledger.h"

#define MIB ((size_t)1 << 20)
#define PTR(p) ((uint64_t)(uintptr_t)(p))

#ifdef __CUDACC__
__global__ void nothing(int *p) {
    if (p)
        *p = 1;
}
#endif

static void checkpoint(const char *name, const char *kind, uint64_t reserved) {
    size_t free_bytes = 0, total = 0;
    int r = (int)cudaMemGetInfo(&free_bytes, &total);
    if (r) {
        fprintf(stderr, "runtime: cudaMemGetInfo returns %d\n", r);
        exit(1);
    }
    ledger_checkpoint(name, kind, free_bytes, total, reserved);
}

static void *take(size_t bytes) {
    void *p = NULL;
    CALL("cudaMalloc", "alloc", "pb", cudaMalloc(&p, bytes), PTR(p), bytes, 0);
    return p;
}

static void give(void *p) {
    CALL("cudaFree", "free", "p", cudaFree(p), PTR(p), 0, 0);
}

static void *take_async(size_t bytes) {
    void *p = NULL;
    CALL("cudaMallocAsync", "alloc", "pb", cudaMallocAsync(&p, bytes, 0), PTR(p), bytes, 0);
    return p;
}

static void everything(void) {
    void *p[5], *q = NULL;
    size_t pitch = 0;
    cudaArray_t array = NULL;
    struct cudaChannelFormatDesc format;
    static const size_t sizes[] = {1, 5000, 2 * MIB, 9 * MIB + 1, 50 * MIB};
    for (int i = 0; i < 5; i++)
        p[i] = take(sizes[i]);
    CALL("cudaMallocPitch", "alloc", "pb", cudaMallocPitch(&q, &pitch, 1000, 333), PTR(q),
         pitch * 333, 0);
    checkpoint("device", "tracked", 0);
    for (int i = 0; i < 5; i++)
        give(p[i]);
    give(q);
    checkpoint("device, freed", "tracked", 0);
    CALL("cudaMallocManaged", "alloc", "pb", cudaMallocManaged(&q, 5 * MIB, 1), PTR(q), 5 * MIB, 0);
    give(q);
    checkpoint("managed", "managed", 0);
    CALL("cudaHostAlloc", "alloc", "pb", cudaHostAlloc(&q, 3 * MIB, 0), PTR(q), 3 * MIB, 0);
    CALL("cudaFreeHost", "free", "p", cudaFreeHost(q), PTR(q), 0, 0);
    memset(&format, 0, sizeof format);
    format.x = 32; // one signed integer
    CALL("cudaMallocArray", "alloc", "b", cudaMallocArray(&array, &format, 1024, 1024, 0), 0,
         4 * MIB, 0);
    checkpoint("array", "tracked", 0);
    CALL("cudaFreeArray", "free", "", cudaFreeArray(array), 0, 0, 0);
    q = take_async(7 * MIB);
    CALL("cudaFreeAsync", "free", "p", cudaFreeAsync(q, 0), PTR(q), 0, 0);
    cudaStreamSynchronize(0);
    checkpoint("asynchronous, freed", "context", 0);
    take((size_t)1 << 50);
#ifdef __CUDACC__
    nothing<<<1, 1>>>(NULL);
    cudaStreamSynchronize(0);
    checkpoint("kernel", "module", 0);
#endif
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    if (!strcmp(what, "init")) {
        cudaFree(0);
        return 0;
    }
    checkpoint("context", "context", 0);
    if (!strcmp(what, "all")) {
        everything();
    } else if (!strcmp(what, "malloc")) {
        take(5 * MIB);
    } else if (!strcmp(what, "free")) {
        give(take(5 * MIB));
    } else if (!strcmp(what, "malloc-async")) {
        take_async(5 * MIB);
        cudaStreamSynchronize(0);
    } else if (!strcmp(what, "reset")) {
        take(5 * MIB);
        cudaDeviceReset();
    } else if (!strcmp(what, "exit")) {
        take(5 * MIB);
        exit(0);
    } else {
        return 2;
    }
    return 0;
}
