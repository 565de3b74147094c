// SPDX-License-Identifier: Apache-2.0
// What the passes over a recording ask of its events and of the replay.
#ifndef CT_RECORDED_BLOCKS_H
#define CT_RECORDED_BLOCKS_H

#include "allocator/what_if.h"
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

// When PyTorch gave cached segments back.

// A thread frees segments, and none of its calls to the driver has failed since its last block:
// empty_cache(), or, with a limit of PyTorch's own, inside a request.
struct ct_release {
    int open;
    uint32_t thread;
    int grew;        // then the thread asked the driver for memory
    uint64_t before; // bytes that PyTorch had reserved
};

// Follows a call to the driver. `failed`: whether one has failed since the thread's last block.
// Returns whether a release begins.
int ct_release_note(struct ct_release *f, const struct ct_replay *r, const struct ct_event *e,
                    int device, int failed);
// Whether what was freed may be garbage (garbage_collection_threshold).
int ct_release_may_be_garbage(const struct ct_release *f, const struct ct_what_if *w);
// Whether an event of a block can end the request inside which the segments were freed. If not,
// empty_cache() freed them.
int ct_release_is_inside_request(const struct ct_release *f, const struct ct_what_if *w,
                                 const struct ct_event *e);

#endif
