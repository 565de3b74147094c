// SPDX-License-Identifier: Apache-2.0
// The stand-in runtime's arrays.
#include "runtime.h"

#include <string.h>

static CUarray_format format_of(const struct cudaChannelFormatDesc *d) {
    bool is_signed = d->f == cudaChannelFormatKindSigned,
         is_float = d->f == cudaChannelFormatKindFloat;
    if (d->x == 8)
        return is_signed ? CU_AD_FORMAT_SIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT8;
    if (d->x == 16)
        return is_float    ? CU_AD_FORMAT_HALF
               : is_signed ? CU_AD_FORMAT_SIGNED_INT16
                           : CU_AD_FORMAT_UNSIGNED_INT16;
    return is_float    ? CU_AD_FORMAT_FLOAT
           : is_signed ? CU_AD_FORMAT_SIGNED_INT32
                       : CU_AD_FORMAT_UNSIGNED_INT32;
}

static unsigned channels_of(const struct cudaChannelFormatDesc *d) {
    return 1u + (d->y != 0) + (d->z != 0) + (d->w != 0);
}

static CUDA_ARRAY3D_DESCRIPTOR shape_of(const struct cudaChannelFormatDesc *d, struct cudaExtent e,
                                        unsigned flags) {
    CUDA_ARRAY3D_DESCRIPTOR shape;
    memset(&shape, 0, sizeof shape);
    shape.Width = e.width;
    shape.Height = e.height;
    shape.Depth = e.depth;
    shape.Format = format_of(d);
    shape.NumChannels = channels_of(d);
    shape.Flags = flags;
    return shape;
}

cudaError_t CUDARTAPI cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                                      size_t width, size_t height, unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    struct cudaExtent extent = {width, height, 0};
    CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(desc, extent, flags);
    CUDA_ARRAY_DESCRIPTOR plain = {shape.Width, shape.Height, shape.Format, shape.NumChannels};
    if (flags)
        return simrt_done(CALL(cuArray3DCreate, 3020, (CUarray *)array, &shape));
    return simrt_done(CALL(cuArrayCreate, 3020, (CUarray *)array, &plain));
}

cudaError_t CUDARTAPI cudaMalloc3DArray(cudaArray_t *array,
                                        const struct cudaChannelFormatDesc *desc,
                                        struct cudaExtent extent, unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(desc, extent, flags);
    return simrt_done(CALL(cuArray3DCreate, 3020, (CUarray *)array, &shape));
}

cudaError_t CUDARTAPI cudaFreeArray(cudaArray_t array) {
    RETURN_IF_NO_CONTEXT;
    return array ? simrt_done(CALL(cuArrayDestroy, 2000, (CUarray)array)) : cudaSuccess;
}

cudaError_t CUDARTAPI cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
                                               const struct cudaChannelFormatDesc *desc,
                                               struct cudaExtent extent, unsigned int numLevels,
                                               unsigned int flags) {
    RETURN_IF_NO_CONTEXT;
    CUDA_ARRAY3D_DESCRIPTOR shape = shape_of(desc, extent, flags);
    return simrt_done(
        CALL(cuMipmappedArrayCreate, 5000, (CUmipmappedArray *)mipmappedArray, &shape, numLevels));
}

WITH_CONTEXT(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray),
             CALL(cuMipmappedArrayDestroy, 5000, (CUmipmappedArray)mipmappedArray))
WITH_CONTEXT(cudaGetMipmappedArrayLevel,
             (cudaArray_t * levelArray, cudaMipmappedArray_const_t mipmappedArray,
              unsigned int level),
             CALL(cuMipmappedArrayGetLevel, 5000, (CUarray *)levelArray,
                  (CUmipmappedArray)(uintptr_t)mipmappedArray, level))

cudaError_t CUDARTAPI
cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t *mipmap, cudaExternalMemory_t extMem,
                                          const struct cudaExternalMemoryMipmappedArrayDesc *d) {
    RETURN_IF_NO_CONTEXT;
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC same;
    memset(&same, 0, sizeof same);
    same.offset = d->offset;
    same.arrayDesc = shape_of(&d->formatDesc, d->extent, d->flags);
    same.numLevels = d->numLevels;
    return simrt_done(CALL(cuExternalMemoryGetMappedMipmappedArray, 10000,
                           (CUmipmappedArray *)mipmap, (CUexternalMemory)extMem, &same));
}

WITH_CONTEXT(cudaArrayGetPlane,
             (cudaArray_t * pPlaneArray, cudaArray_t hArray, unsigned int planeIdx),
             CALL(cuArrayGetPlane, 11020, (CUarray *)pPlaneArray, (CUarray)hArray, planeIdx))
