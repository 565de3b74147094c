// SPDX-License-Identifier: Apache-2.0
// CUDA arrays and mipmapped arrays, as array.c and external.c share them.
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "sim.h"

struct sim_tile { // memory bound to a part of a sparse array
    CUarrayMapInfo where;
    struct sim_physical *physical;
    struct sim_tile *next;
};

struct sim_array { // both kinds: a mipmapped array has levels
    struct sim_object o;
    CUDA_ARRAY3D_DESCRIPTOR shape;
    unsigned levels;
    struct sim_range *memory; // NULL: sparse, deferred, a level of another, or external memory
    struct sim_array *parent; // of a level
    struct sim_array **level; // made when they are asked for
    struct sim_tile *tiles;
};

// A mipmapped array without memory of its own.
struct sim_array *sim_mipmap_new(struct sim_context *ctx, const CUDA_ARRAY3D_DESCRIPTOR *shape,
                                 unsigned levels);
uint64_t sim_mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels);
bool sim_array_bad(const CUDA_ARRAY3D_DESCRIPTOR *shape);

#endif
