// SPDX-License-Identifier: Apache-2.0
// Frees at the exit of the process, behind the driver's own end (SIM_EXIT=1): handlers run last in,
// first out, and the driver's is registered by cuInit. Exits with 1 if the driver has not ended.
#define _GNU_SOURCE
#include "cu.h"

#include <stdlib.h>
#include <unistd.h>

static CUdeviceptr held;

static void free_at_exit(void) {
    if (CU(cuMemFree_v2)(held) != CUDA_ERROR_DEINITIALIZED)
        _exit(1);
}

int main(void) {
    CUcontext ctx;
    if (atexit(free_at_exit) || CU(cuInit)(0) || CU(cuDevicePrimaryCtxRetain)(&ctx, 0) ||
        CU(cuCtxSetCurrent)(ctx) || CU(cuMemAlloc_v2)(&held, 4 * MIB))
        return 2;
    return 0;
}
