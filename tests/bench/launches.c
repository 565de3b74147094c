// SPDX-License-Identifier: Apache-2.0
// What the hook on a launch costs: cuLaunchKernel with the library in the way, by its symbol and by
// the pointer that dlsym hands out, against the driver's function itself, in batches by turns.
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stub_driver.h"

enum { BATCH = 20000, ROUNDS = 301, WAYS = 3 };

typedef CUresult(CUDAAPI *launch_function)(CUfunction, unsigned, unsigned, unsigned, unsigned,
                                           unsigned, unsigned, unsigned, CUstream, void **,
                                           void **);

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// Nanoseconds for a launch.
static __attribute__((noinline)) double run_batch(launch_function launch) {
    void *arguments[4] = {NULL};
    const double start = now_ns();
    for (unsigned i = 0; i < BATCH; i++)
        if (launch((CUfunction)(void *)arguments, i, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL))
            exit(1);
    return (now_ns() - start) / BATCH;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    static double ns[WAYS][ROUNDS];
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUdeviceptr p;
    if (!driver || cuInit(0) || cuMemAlloc(&p, 1 << 20)) // the trace has begun
        return 1;
    const launch_function launch[WAYS] = {(launch_function)stub_launch(), cuLaunchKernel,
                                          (launch_function)dlsym(driver, "cuLaunchKernel")};
    for (int round = -20; round < ROUNDS; round++)
        for (int way = 0; way < WAYS; way++) {
            const double one = run_batch(launch[way]);
            if (round >= 0)
                ns[way][round] = one;
        }
    for (int way = 0; way < WAYS; way++)
        qsort(ns[way], ROUNDS, sizeof **ns, compare);
    printf("%.2f %.2f %.2f %d\n", ns[0][ROUNDS / 2], ns[1][ROUNDS / 2], ns[2][ROUNDS / 2],
           launch[1] != launch[0] && launch[2] != launch[0]);
    return cuMemFree(p) != CUDA_SUCCESS;
}
