// SPDX-License-Identifier: Apache-2.0
// What a program asks the stand-in runtime of a kernel, and sets, and its occupancy.
#include "runtime.h"

#include <string.h>

// The attributes of a kernel need its code, which this loads.
static CUresult loaded(const void *host, CUfunction *function) {
    CUresult result = simrt_function(host, function);
    return result ? result : CALL(cuKernelGetFunction, 12000, function, (CUkernel)*function);
}

static int ask(CUresult *result, CUfunction_attribute attribute, CUfunction f) {
    int value = 0;
    if (!*result)
        *result = CALL(cuFuncGetAttribute, 2020, &value, attribute, f);
    return value;
}

cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func) {
    CUfunction f = NULL;
    RETURN_IF_NO_CONTEXT;
    if (!attr)
        return simrt_done(CUDA_ERROR_INVALID_VALUE);
    CUresult result = loaded(func, &f);
    memset(attr, 0, sizeof *attr);
#define IS(member, name) \
    attr->member = (__typeof__(attr->member))ask(&result, CU_FUNC_ATTRIBUTE_##name, f)
    IS(sharedSizeBytes, SHARED_SIZE_BYTES);
    IS(constSizeBytes, CONST_SIZE_BYTES);
    IS(localSizeBytes, LOCAL_SIZE_BYTES);
    IS(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK);
    IS(numRegs, NUM_REGS);
    IS(ptxVersion, PTX_VERSION);
    IS(binaryVersion, BINARY_VERSION);
    IS(cacheModeCA, CACHE_MODE_CA);
    IS(maxDynamicSharedSizeBytes, MAX_DYNAMIC_SHARED_SIZE_BYTES);
    IS(preferredShmemCarveout, PREFERRED_SHARED_MEMORY_CARVEOUT);
    IS(clusterDimMustBeSet, CLUSTER_SIZE_MUST_BE_SET);
    IS(requiredClusterWidth, REQUIRED_CLUSTER_WIDTH);
    IS(requiredClusterHeight, REQUIRED_CLUSTER_HEIGHT);
    IS(requiredClusterDepth, REQUIRED_CLUSTER_DEPTH);
    IS(clusterSchedulingPolicyPreference, CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    IS(nonPortableClusterSizeAllowed, NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr,
                                           int value) {
    CUfunction f = NULL;
    RETURN_IF_NO_CONTEXT;
    CUresult result = simrt_function(func, &f);
    if (!result)
        result = CALL(cuFuncSetAttribute, 9000, f, (CUfunction_attribute)attr, value);
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig) {
    CUfunction f = NULL;
    RETURN_IF_NO_CONTEXT;
    CUresult result = simrt_function(func, &f);
    if (!result)
        result = CALL(cuFuncSetCacheConfig, 3000, f, (CUfunc_cache)cacheConfig);
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaFuncGetName(const char **name, const void *func) {
    CUfunction f = NULL;
    RETURN_IF_NO_CONTEXT;
    CUresult result = simrt_function(func, &f);
    if (!result)
        result = CALL(cuKernelGetName, 12030, name, (CUkernel)f);
    return simrt_done(result);
}

// ---- occupancy ----------------------------------------------------------------------------------

static cudaError_t active(int *blocks, const void *func, int size, size_t shared, unsigned flags) {
    CUfunction f = NULL;
    RETURN_IF_NO_CONTEXT;
    CUresult result = simrt_function(func, &f);
    if (!result)
        result = CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, blocks, f, size,
                      shared, flags);
    return simrt_done(result);
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks,
                                                                    const void *func, int blockSize,
                                                                    size_t dynamicSMemSize) {
    return active(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags) {
    return active(numBlocks, func, blockSize, dynamicSMemSize, flags);
}

cudaError_t CUDARTAPI cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize,
                                                                const void *func, int numBlocks,
                                                                int blockSize) {
    CUfunction f = NULL;
    RETURN_IF_NO_CONTEXT;
    CUresult result = simrt_function(func, &f);
    if (!result)
        result = CALL(cuOccupancyAvailableDynamicSMemPerBlock, 10020, dynamicSmemSize, f, numBlocks,
                      blockSize);
    return simrt_done(result);
}

// The attributes of a launch are the driver's, by the header.
static CUlaunchConfig to_driver(const cudaLaunchConfig_t *config) {
    return (CUlaunchConfig){
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = (CUlaunchAttribute *)(void *)config->attrs,
        .numAttrs = config->numAttrs,
    };
}

// What the driver answers of clusters for a launch with these attributes.
#define ON_CLUSTERS(symbol, out)                                                 \
    cudaError_t CUDARTAPI cuda##symbol(int *out, const void *func,               \
                                       const cudaLaunchConfig_t *launchConfig) { \
        CUfunction f = NULL;                                                     \
        RETURN_IF_NO_CONTEXT;                                                    \
        CUresult result = simrt_function(func, &f);                              \
        CUlaunchConfig config = to_driver(launchConfig);                         \
        if (!result)                                                             \
            result = CALL(cu##symbol, 11070, out, f, &config);                   \
        return simrt_done(result);                                               \
    }
ON_CLUSTERS(OccupancyMaxPotentialClusterSize, clusterSize)
ON_CLUSTERS(OccupancyMaxActiveClusters, numClusters)
