// SPDX-License-Identifier: Apache-2.0
// The 32-bit ABIs of CUDA 2 that take or give a device address: it does not fit into their
// CUdeviceptr_v1, so they fail. They are there because the real driver exports them, and because
// an interposer must never take them for their 64-bit successors.
#include "sim.h"

CUresult sim_old_abi(const char *api) {
    struct sim_call c;
    sim_begin(&c, api, NULL, SIM_NEED_CONTEXT);
    if (!c.result)
        c.result = CUDA_ERROR_NOT_SUPPORTED;
    return sim_end(&c);
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize) {
    (void)dptr, (void)bytesize;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch,
                                 unsigned int WidthInBytes, unsigned int Height,
                                 unsigned int ElementSizeBytes) {
    (void)dptr, (void)pPitch, (void)WidthInBytes, (void)Height, (void)ElementSizeBytes;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr_v1 dptr) {
    (void)dptr;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuMemGetInfo(unsigned int *free, unsigned int *total) {
    (void)free, (void)total;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize,
                                      CUdeviceptr_v1 dptr) {
    (void)pbase, (void)psize, (void)dptr;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuMemAllocHost(void **pp, unsigned int bytesize) {
    (void)pp, (void)bytesize;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags) {
    (void)pdptr, (void)p, (void)Flags;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray) {
    (void)pHandle, (void)pAllocateArray;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuArray3DCreate(CUarray *pHandle,
                                 const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray) {
    (void)pHandle, (void)pAllocateArray;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod,
                                   const char *name) {
    (void)dptr, (void)bytes, (void)hmod, (void)name;
    return sim_old_abi(__func__);
}

CUresult CUDAAPI cuGraphicsResourceGetMappedPointer(CUdeviceptr_v1 *pDevPtr, unsigned int *pSize,
                                                    CUgraphicsResource resource) {
    (void)pDevPtr, (void)pSize, (void)resource;
    return sim_old_abi(__func__);
}
