// SPDX-License-Identifier: Apache-2.0
// Tensor maps: 128 bytes on the host that a kernel reads. What the header requires is checked; the
// bytes hold the address and nothing that a kernel could use, as no kernel runs.
#include "sim.h"

#include <string.h>

enum { RANK_MOST = 5, BOX_MOST = 256, ELEMENT_STRIDE_MOST = 8 };

struct tensor { // what all kinds of maps describe
    CUtensorMap *map;
    unsigned rank, least_rank;
    const void *address;
    const cuuint64_t *sizes, *strides;
    const cuuint32_t *element_strides;
    CUtensorMapInterleave interleave;
};

static bool aligned(const void *address, uint64_t to) {
    return (uint64_t)(uintptr_t)address % to == 0;
}

static bool valid(const struct tensor *t) {
    const uint64_t align = t->interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
    const unsigned least =
        t->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && t->least_rank < 3 ? 3 : t->least_rank;
    if (!t->map || !aligned(t->map, 64) || !t->sizes || !t->element_strides || t->rank < least ||
        t->rank > RANK_MOST || (t->rank > 1 && !t->strides) || !aligned(t->address, align))
        return false;
    for (unsigned i = 0; i < t->rank; i++) {
        const bool ignored = i == 0 && t->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
        if (!t->sizes[i] || t->sizes[i] > 1ull << 32)
            return false;
        if (!ignored && (!t->element_strides[i] || t->element_strides[i] > ELEMENT_STRIDE_MOST))
            return false;
    }
    for (unsigned i = 0; i + 1 < t->rank; i++)
        if (t->strides[i] % align || t->strides[i] >= 1ull << 40)
            return false;
    return true;
}

static CUresult encode(const char *api, const struct tensor *t, bool rest) {
    SIM_BEGIN_AS(api, NULL, INIT);
    SIM_REFUSE_IF(&c, !rest || !valid(t), CUDA_ERROR_INVALID_VALUE);
    if (!c.result) {
        memset(t->map, 0, sizeof *t->map);
        t->map->opaque[0] = (cuuint64_t)(uintptr_t)t->address;
    }
    return sim_end(&c);
}

CUresult CUDAAPI cuTensorMapEncodeTiled(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
    const cuuint32_t *boxDim, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
    bool box = boxDim != NULL;
    for (unsigned i = 0; box && i < tensorRank && i < RANK_MOST; i++)
        box = boxDim[i] && boxDim[i] <= BOX_MOST;
    return encode(__func__,
                  &(struct tensor){tensorMap, tensorRank, 1, globalAddress, globalDim,
                                   globalStrides, elementStrides, interleave},
                  box);
}

CUresult CUDAAPI cuTensorMapEncodeIm2col(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
    const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
    return encode(__func__,
                  &(struct tensor){tensorMap, tensorRank, 3, globalAddress, globalDim,
                                   globalStrides, elementStrides, interleave},
                  pixelBoxLowerCorner && pixelBoxUpperCorner && channelsPerPixel <= BOX_MOST &&
                      pixelsPerColumn <= 1024);
}

#if CUDA_VERSION >= 12080
CUresult CUDAAPI cuTensorMapEncodeIm2colWide(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
    int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
    return encode(__func__,
                  &(struct tensor){tensorMap, tensorRank, 3, globalAddress, globalDim,
                                   globalStrides, elementStrides, interleave},
                  channelsPerPixel <= BOX_MOST && pixelsPerColumn <= 1024);
}
#endif

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress) {
    SIM_BEGIN(NULL, INIT);
    SIM_REFUSE_IF(&c, !tensorMap || !aligned(tensorMap, 64) || !aligned(globalAddress, 16),
                  CUDA_ERROR_INVALID_VALUE);
    if (!c.result)
        tensorMap->opaque[0] = (cuuint64_t)(uintptr_t)globalAddress;
    return sim_end(&c);
}
