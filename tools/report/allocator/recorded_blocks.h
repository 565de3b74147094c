// SPDX-License-Identifier: Apache-2.0
// What the passes over a recording ask of its events and of the replay.
#ifndef CT_RECORDED_BLOCKS_H
#define CT_RECORDED_BLOCKS_H

#include "replay/replay.h"
#include "replay/torch_segments.h"

// Threads whose numbers are equal but for multiples share a state.
enum { CT_RECORDED_THREADS = 256 };

// The memory that a block lies in, or NULL if it is none of PyTorch's own.
static inline const struct ct_torch_region *ct_recorded_region(const struct ct_replay *r,
                                                               uint64_t address, int device) {
    const struct ct_torch_region *region = ct_torch_pool_find_segment(&r->pool, address);
    return region && !region->foreign && !region->async && region->device == device ? region : NULL;
}

static inline int ct_recorded_is_block(const struct ct_event *e) {
    return e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_BLOCK_FREE || e->op == CT_OP_BLOCK_OOM;
}

static inline int ct_recorded_is_block_of(const struct ct_event *e, int device) {
    return ct_recorded_is_block(e) && ct_event_device_index(e) == device && CT_HAS(e, bytes);
}

static inline uint32_t ct_recorded_thread(const struct ct_event *e) {
    return CT_HAS(e, thread) ? e->thread : 0;
}

#endif
