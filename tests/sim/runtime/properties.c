// SPDX-License-Identifier: Apache-2.0
// cudaDeviceProp, in the layout of CUDA 12 and in that of CUDA 13, which left members out. All that
// it says of a device are attributes of the driver.
#include "runtime.h"

#include <stddef.h>
#include <string.h>

struct properties12 { // driver_types.h of CUDA 12
    char name[256];
    CUuuid uuid;
    char luid[8];
    unsigned int luidDeviceNodeMask;
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int regsPerBlock;
    int warpSize;
    size_t memPitch;
    int maxThreadsPerBlock;
    int maxThreadsDim[3];
    int maxGridSize[3];
    int clockRate;
    size_t totalConstMem;
    int major;
    int minor;
    size_t textureAlignment;
    size_t texturePitchAlignment;
    int deviceOverlap;
    int multiProcessorCount;
    int kernelExecTimeoutEnabled;
    int integrated;
    int canMapHostMemory;
    int computeMode;
    int maxTexture1D;
    int maxTexture1DMipmap;
    int maxTexture1DLinear;
    int maxTexture2D[2];
    int maxTexture2DMipmap[2];
    int maxTexture2DLinear[3];
    int maxTexture2DGather[2];
    int maxTexture3D[3];
    int maxTexture3DAlt[3];
    int maxTextureCubemap;
    int maxTexture1DLayered[2];
    int maxTexture2DLayered[3];
    int maxTextureCubemapLayered[2];
    int maxSurface1D;
    int maxSurface2D[2];
    int maxSurface3D[3];
    int maxSurface1DLayered[2];
    int maxSurface2DLayered[3];
    int maxSurfaceCubemap;
    int maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels;
    int ECCEnabled;
    int pciBusID;
    int pciDeviceID;
    int pciDomainID;
    int tccDriver;
    int asyncEngineCount;
    int unifiedAddressing;
    int memoryClockRate;
    int memoryBusWidth;
    int l2CacheSize;
    int persistingL2CacheMaxSize;
    int maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported;
    int globalL1CacheSupported;
    int localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor;
    int managedMemory;
    int isMultiGpuBoard;
    int multiGpuBoardGroupID;
    int hostNativeAtomicSupported;
    int singleToDoublePrecisionPerfRatio;
    int pageableMemoryAccess;
    int concurrentManagedAccess;
    int computePreemptionSupported;
    int canUseHostPointerForRegisteredMem;
    int cooperativeLaunch;
    int cooperativeMultiDeviceLaunch;
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables;
    int directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor;
    int accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported;
    int sparseCudaArraySupported;
    int hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported;
    int memoryPoolsSupported;
    int gpuDirectRDMASupported;
    unsigned int gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned int memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported;
    int ipcEventSupported;
    int clusterLaunch;
    int unifiedFunctionPointers;
    int reserved[63];
};
_Static_assert(sizeof(struct properties12) == 1032, "as CUDA 12 has it");

static int ask(CUresult *result, CUdevice_attribute attribute, int ordinal) {
    int value = 0;
    if (!*result)
        *result = CALL(cuDeviceGetAttribute, 2000, &value, attribute, ordinal);
    return value;
}

#define SIMRT_PROPERTY(member, name) \
    prop->member = (__typeof__(prop->member))ask(&result, CU_DEVICE_ATTRIBUTE_##name, ordinal);

#define BEGIN(prop)                                                                           \
    memset(prop, 0, sizeof *(prop));                                                          \
    CUresult result = CALL(cuDeviceGetName, 2000, (prop)->name, sizeof(prop)->name, ordinal); \
    if (!result)                                                                              \
        result = CALL(cuDeviceTotalMem, 3020, &(prop)->totalGlobalMem, ordinal);              \
    if (!result)                                                                              \
    result = CALL(cuDeviceGetUuid, 9020, (CUuuid *)(void *)&(prop)->uuid, ordinal)

static CUresult fill12(struct properties12 *prop, int ordinal) {
    BEGIN(prop);
#define SIMRT_PROPERTY_12(member, name) SIMRT_PROPERTY(member, name)
#include "properties.def"
#undef SIMRT_PROPERTY_12
    return result;
}

// What programs that were built for CUDA 12 call (its header renames the other one).
cudaError_t CUDARTAPI cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int ordinal);
STARTED(cudaGetDeviceProperties_v2, (struct cudaDeviceProp * prop, int ordinal),
        fill12((struct properties12 *)(void *)prop, ordinal))

#if CUDART_VERSION >= 13000
static CUresult fill13(struct cudaDeviceProp *prop, int ordinal) {
    BEGIN(prop);
#define SIMRT_PROPERTY_12(member, name)
#include "properties.def"
#undef SIMRT_PROPERTY_12
    return result;
}

STARTED(cudaGetDeviceProperties, (struct cudaDeviceProp * prop, int ordinal), fill13(prop, ordinal))
#endif
