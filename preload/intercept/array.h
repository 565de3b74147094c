// SPDX-License-Identifier: Apache-2.0
// Sizes of arrays.
#ifndef CT_ARRAY_H
#define CT_ARRAY_H

#include <stdint.h>

#include "intercept/cuda_api.h"

// The bytes of all levels of a mipmapped array, by its descriptor.
uint64_t ct_array_mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels);

#endif
