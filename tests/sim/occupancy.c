// SPDX-License-Identifier: Apache-2.0
// Occupancy: how many blocks of a function fit on a multiprocessor of an H100, by threads,
// registers and shared memory.
#include "module.h"

#include <limits.h>

enum { CLUSTER_PORTABLE = 8, CLUSTER_MOST = 16 };

// What the devices have; they are alike.
#define DEVICE(name) ((size_t)sim_device_attribute(CU_DEVICE_ATTRIBUTE_##name, 0))

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static int blocks_of(const struct sim_function *f, int block_size, size_t dynamic) {
    const int threads = sim_function_attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    const size_t registers = (size_t)sim_function_attribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS);
    const size_t fixed = (size_t)sim_function_attribute(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    if (block_size > threads || dynamic > DEVICE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) - fixed)
        return 0;
    const size_t warp = DEVICE(WARP_SIZE), padded = sim_round_up((uint64_t)block_size, warp);
    size_t blocks = DEVICE(MAX_BLOCKS_PER_MULTIPROCESSOR);
    blocks = least(blocks, DEVICE(MAX_THREADS_PER_MULTIPROCESSOR) / padded);
    blocks = least(blocks, DEVICE(MAX_REGISTERS_PER_MULTIPROCESSOR) / (registers * padded));
    const size_t shared = fixed + dynamic + DEVICE(RESERVED_SHARED_MEMORY_PER_BLOCK);
    return (int)least(blocks, DEVICE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / shared);
}

static const struct sim_function *begin(struct sim_call *c, const char *api, const void *out,
                                        CUfunction func, bool valid) {
    sim_begin(c, api, NULL, SIM_NEED_CONTEXT);
    const struct sim_function *f = sim_function_find(func);
    SIM_REFUSE_IF(c, !out || !valid, CUDA_ERROR_INVALID_VALUE);
    SIM_REFUSE_IF(c, !f, CUDA_ERROR_INVALID_HANDLE);
    return f;
}

static CUresult active(const char *api, int *out, CUfunction func, int block_size, size_t dynamic,
                       unsigned flags) {
    struct sim_call c;
    const struct sim_function *f =
        begin(&c, api, out, func, block_size > 0 && flags <= CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE);
    if (!c.result)
        *out = blocks_of(f, block_size, dynamic);
    return sim_end(&c);
}

SIM_FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessor,
            (int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize), active,
            numBlocks, func, blockSize, dynamicSMemSize, 0)
SIM_FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
            (int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize,
             unsigned int flags),
            active, numBlocks, func, blockSize, dynamicSMemSize, flags)

// ---- the block size with the most threads at a time ---------------------------------------------

static CUresult potential(const char *api, int *grid, int *block, CUfunction func,
                          CUoccupancyB2DSize shared_of, size_t dynamic, int limit) {
    struct sim_call c;
    const struct sim_function *f = begin(&c, api, grid, func, block && limit >= 0);
    struct sim_function copy = {0};
    if (!c.result)
        copy = f->kernel ? *f->kernel : *f;
    CUresult result = sim_end(&c);
    if (result)
        return result;
    const int warp = (int)DEVICE(WARP_SIZE);
    int most = 0, size = copy.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    if (limit && limit < size)
        size = limit < warp ? limit : limit / warp * warp;
    // The program's function runs without the driver's lock: it may call the driver.
    for (; size > 0; size -= warp) {
        int blocks = blocks_of(&copy, size, shared_of ? shared_of(size) : dynamic);
        if (blocks * size <= most)
            continue;
        most = blocks * size;
        *block = size;
        *grid = blocks * (int)DEVICE(MULTIPROCESSOR_COUNT);
    }
    return most ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_FORWARD(cuOccupancyMaxPotentialBlockSize,
            (int *minGridSize, int *blockSize, CUfunction func,
             CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
             int blockSizeLimit),
            potential, minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
            blockSizeLimit)
SIM_FORWARD(cuOccupancyMaxPotentialBlockSizeWithFlags,
            (int *minGridSize, int *blockSize, CUfunction func,
             CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
             int blockSizeLimit, unsigned int flags),
            potential, minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
            blockSizeLimit)

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
                                                         int numBlocks, int blockSize) {
    struct sim_call c;
    const struct sim_function *f =
        begin(&c, __func__, dynamicSmemSize, func, numBlocks > 0 && blockSize > 0);
    SIM_REFUSE_IF(&c, blocks_of(f, blockSize, 0) < numBlocks, CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        size_t fixed = (size_t)sim_function_attribute(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
        size_t each = DEVICE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / (size_t)numBlocks;
        each -= DEVICE(RESERVED_SHARED_MEMORY_PER_BLOCK);
        *dynamicSmemSize = least(each, DEVICE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)) - fixed;
    }
    return sim_end(&c);
}

// ---- clusters -----------------------------------------------------------------------------------

static int required_cluster(const struct sim_function *f) {
    return sim_function_attribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) *
           sim_function_attribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT) *
           sim_function_attribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
}

static int largest_cluster(const struct sim_function *f) {
    return sim_function_attribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
               ? CLUSTER_MOST
               : CLUSTER_PORTABLE;
}

// Blocks in a cluster of the launch, 0 where it does not say.
static uint64_t wanted_cluster(const CUlaunchConfig *config) {
    for (unsigned i = 0; config->attrs && i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            const CUlaunchAttributeValue *v = &config->attrs[i].value;
            return (uint64_t)v->clusterDim.x * v->clusterDim.y * v->clusterDim.z;
        }
    return 0;
}

CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
                                                    const CUlaunchConfig *config) {
    struct sim_call c;
    const struct sim_function *f = begin(&c, __func__, clusterSize, func, config);
    if (!c.result)
        *clusterSize = required_cluster(f) ? required_cluster(f) : largest_cluster(f);
    return sim_end(&c);
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
                                              const CUlaunchConfig *config) {
    struct sim_call c;
    const struct sim_function *f = begin(&c, __func__, numClusters, func, config);
    if (!c.result) {
        const uint64_t required = (uint64_t)required_cluster(f), wanted = wanted_cluster(config);
        const uint64_t size = required ? required : wanted;
        const uint64_t block = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
        if (!size || size > (uint64_t)largest_cluster(f) || (wanted && wanted != size))
            c.result = CUDA_ERROR_INVALID_CLUSTER_SIZE;
        else if (!block || block > INT_MAX)
            c.result = CUDA_ERROR_INVALID_VALUE;
        else
            *numClusters = blocks_of(f, (int)block, config->sharedMemBytes) *
                           (int)(DEVICE(MULTIPROCESSOR_COUNT) / size);
    }
    return sim_end(&c);
}
