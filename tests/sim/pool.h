// SPDX-License-Identifier: Apache-2.0
// A memory pool, as pool.c and pool_share.c know it.
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "sim.h"

struct sim_block { // what the pool has reserved, in pieces of SIM_POOL_GROW or more
    uint64_t base, size;
    struct sim_extents free;
    struct sim_block *next;
};

struct sim_pool {
    struct sim_object o;
    CUmemPoolProps props;
    bool by_default;    // cannot be destroyed
    bool charges;       // device memory; not host, and managed only by SIM_MANAGED
    bool dying;         // destroyed, but allocations are outstanding
    bool imported;      // another process owns the memory
    uint64_t threshold; // bytes that a synchronise leaves reserved
    uint64_t reserved, reserved_high, used, used_high;
    int reuse[3];
    unsigned live;
    struct sim_fd_export *descriptors;
    struct sim_block *blocks;
};

struct sim_pool *sim_pool_new(const CUmemPoolProps *props, int device);
struct sim_range *sim_pool_take(struct sim_pool *pool, uint64_t bytes, CUresult *why_not);
struct sim_pool *sim_pool_of_device(int device, bool current);

#endif
