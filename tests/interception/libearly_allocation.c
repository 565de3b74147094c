// SPDX-License-Identifier: Apache-2.0
// A library that is linked to the driver and allocates before main does.
#include "cu.h"

__attribute__((constructor)) static void allocate_early(void) {
    CUcontext ctx = NULL;
    CUdeviceptr p = 0;
    if (CU(cuInit)(0) == CUDA_SUCCESS && CU(cuDevicePrimaryCtxRetain)(&ctx, 0) == CUDA_SUCCESS &&
        CU(cuCtxSetCurrent)(ctx) == CUDA_SUCCESS)
        (void)CU(cuMemAlloc_v2)(&p, 7 * MIB);
}
