// SPDX-License-Identifier: Apache-2.0
// The 32-bit ABIs of CUDA 2 that take or give a device address: it does not fit into their
// CUdeviceptr_v1, so they fail. They are there because the real driver exports them, and because
// an interposer must never take them for their 64-bit successors.
#include "sim.h"

CUresult sim_old_abi(const char *api) {
    SIM_BEGIN_AS(api, NULL, CONTEXT);
    if (!c.result)
        c.result = CUDA_ERROR_NOT_SUPPORTED;
    return sim_end(&c);
}

#define OLD(symbol, params)           \
    CUresult CUDAAPI symbol params {  \
        return sim_old_abi(__func__); \
    }

OLD(cuMemAlloc, (CUdeviceptr_v1 * dptr, unsigned int bytesize))
OLD(cuMemAllocPitch, (CUdeviceptr_v1 * dptr, unsigned int *pPitch, unsigned int WidthInBytes,
                      unsigned int Height, unsigned int ElementSizeBytes))
OLD(cuMemFree, (CUdeviceptr_v1 dptr))
OLD(cuMemGetInfo, (unsigned int *free, unsigned int *total))
OLD(cuMemGetAddressRange, (CUdeviceptr_v1 * pbase, unsigned int *psize, CUdeviceptr_v1 dptr))
OLD(cuMemAllocHost, (void **pp, unsigned int bytesize))
OLD(cuMemHostGetDevicePointer, (CUdeviceptr_v1 * pdptr, void *p, unsigned int Flags))
OLD(cuArrayCreate, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray))
OLD(cuArray3DCreate, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray))
OLD(cuModuleGetGlobal,
    (CUdeviceptr_v1 * dptr, unsigned int *bytes, CUmodule hmod, const char *name))
OLD(cuGraphicsResourceGetMappedPointer,
    (CUdeviceptr_v1 * pDevPtr, unsigned int *pSize, CUgraphicsResource resource))
