// SPDX-License-Identifier: Apache-2.0
// Pools of the program (cutrace.h, NVTX heaps) at a moment: what each has handed out, and what is
// left of the memory that it hands out from. No memory beyond that of the driver's allocations.
#ifndef CT_PROGRAM_POOLS_H
#define CT_PROGRAM_POOLS_H

#include "analyze/moment.h"

// More pools than these share the last row; more sub-allocations at a time are only counted.
enum { CT_PROGRAM_POOLS = 256, CT_PROGRAM_POOL_REGIONS = 1 << 20 };

struct ct_program_pool {
    uint32_t text, domain; // string ids of the name, 0: none
    int has_handle;
    uint64_t handle; // of an NVTX heap
    int is_rest;     // all pools that have no row
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes, peak_t_ns; // of live_bytes
    uint64_t handed_out_count, taken_back_count;
    uint64_t start, bytes; // what an NVTX heap says that it hands out from; 0 bytes: nothing
    // What it hands out from: the bytes of the heap, else of the blocks of PyTorch's and the
    // driver's allocations that sub-allocations lie in. Not known where one lies elsewhere, or
    // where another pool lies in the same memory.
    int memory_known;
    uint64_t memory_bytes, memory_count;
    uint32_t generation; // sub-allocations of an earlier one are taken back
};

struct ct_program_region {
    uint64_t ptr, bytes;
    uint32_t pool; // position + 1; 0: free
    uint32_t generation;
};

struct ct_program_pools {
    struct ct_program_pool list[CT_PROGRAM_POOLS]; // in the order of their first events
    uint32_t count;
    // Whether all that the program said is in these figures; else they are of a part of it.
    int complete;
    uint64_t unknown_count;  // taken back and not known to be handed out
    uint64_t replaced_count; // handed out while it was handed out
    uint64_t left_out_count; // beyond CT_PROGRAM_POOL_REGIONS
    // A hash table by `ptr`, at most half full. `used`: also those of earlier generations.
    struct ct_program_region *regions;
    size_t capacity, used, live;
};

// Whether an event is of such a pool.
int ct_program_pools_has(const struct ct_event *e);
// Applies an event to what was zero before the first one.
void ct_program_pools_apply(struct ct_program_pools *p, const struct ct_event *e);
// Reads the trace up to the moment; then finds the memory of the pools in the state there.
void ct_program_pools_read(struct ct_program_pools *p, struct ct_trace *t,
                           const struct ct_moment *m, const struct ct_live *state);
void ct_program_pools_free(struct ct_program_pools *p);

#endif
