// SPDX-License-Identifier: Apache-2.0
// PyTorch's pools: the memory that it has from the driver, tiled by the blocks that it handed out and the free ranges
// between them. POOL.md says what each figure means.
//
// Nothing is kept before the first block is seen. From then on each change costs the logarithm of what is there.
#ifndef CT_POOL_H
#define CT_POOL_H

#include <cutrace/model/readings.h>

#include "replay/range_tree.h"

// What a segment is for follows from how large a piece PyTorch asked the driver for.
enum ct_torch_pool_class { CT_TORCH_POOL_SMALL, CT_TORCH_POOL_LARGE, CT_TORCH_POOL_CLASSES };
#define CT_TORCH_POOL_SMALL_SEGMENT (UINT64_C(2) << 20) // of a small segment: all else is large
#define CT_TORCH_POOL_SMALL_BLOCK (UINT64_C(1) << 20) // and the largest block that it is for

// Driver memory in one piece: an allocation, or the neighbouring mappings of one reservation. A segment if it has held a block.
struct ct_torch_region {
    uint64_t start, bytes; // bytes 0: not in use
    uint64_t free;         // of a segment: bytes that no block covers
    uint64_t piece;        // bytes of the driver call that began it
    uint64_t reservation;  // where it begins; 0: none, or not known
    uint64_t t_ns, event;  // of that call
    uint32_t stack, api;
    uint32_t maps; // 0: an allocation
    uint8_t device, held, async;
    uint8_t foreign; // of a MemPool's own allocator: PyTorch is not told of what that does with it
    uint32_t next_free; // of one that is not in use
};

struct ct_free_blocks {
    uint64_t ranges, bytes, largest;
};

struct ct_torch_pool_totals {
    int known;            // blocks were seen
    int stated;           // PyTorch told its totals
    uint64_t allocated;   // with the last block
    uint64_t reserved;    // likewise, and its own segments that came and went since
    int64_t unreconciled; // reserved - segment_bytes, behind the last event of a block
    uint64_t blocks, block_bytes;
    uint64_t segments, segment_bytes;
    uint64_t idle_segments, idle_bytes;     // hold no block: could be given back
    uint64_t pinned_segments, pinned_bytes; // hold blocks: bytes that are free all the same
    uint64_t outside_bytes;                 // of blocks in no memory that is known
    struct ct_free_blocks free, of_class[CT_TORCH_POOL_CLASSES];
};

struct ct_torch_pool_device {
    int seen;
    struct ct_range_tree free[CT_TORCH_POOL_CLASSES], outside;
    uint64_t segments, segment_bytes, idle_segments, idle_bytes, pinned_segments, pinned_bytes;
    uint64_t own_bytes; // of segment_bytes, what is not foreign
    int64_t unreconciled;
    uint64_t own_stated; // own_bytes behind the last event of a block
};

struct ct_torch_pool {
    int on;                   // a block was seen
    struct ct_range_tree memory; // the mark is the region
    struct ct_range_tree reserved;
    struct ct_torch_region *regions;
    uint32_t region_count, region_room, free_region;
    uint32_t near[4096]; // regions that were looked for lately, by address
    struct ct_torch_pool_device device[CT_DEVICES];
    const uint8_t *foreign; // by stack
    size_t foreign_count;
};

#define CT_TORCH_POOL_NO_REGION UINT32_MAX

// From now on it follows what is alive, beginning with what is alive now. foreign: of `count` stacks, whether a MemPool's own
// allocator called the driver (or NULL); it stays the caller's.
void ct_torch_pool_begin(struct ct_torch_pool *p, struct ct_live *l, const uint8_t *foreign, size_t count);
// For a batch of events: fetches what a block at the address will look at, as ct_range_tree_prefetch.
void ct_torch_pool_prefetch(const struct ct_torch_pool *p, uint64_t address, int stage);
// Behind ct_live_apply of an event of a block.
void ct_torch_pool_reported(struct ct_torch_pool *p, const struct ct_live *l, int device);
// The memory at an address has held a block, as a checkpoint says.
void ct_torch_pool_restore_segment(struct ct_torch_pool *p, uint64_t address, int device);
// Behind a checkpoint: mappings came before the handles that tell their device.
void ct_torch_pool_assign_devices(struct ct_torch_pool *p, const struct ct_live *l);
void ct_torch_pool_free(struct ct_torch_pool *p);

// The segment that an address lies in, or NULL.
const struct ct_torch_region *ct_torch_pool_find_segment(const struct ct_torch_pool *p, uint64_t address);
enum ct_torch_pool_class ct_torch_pool_region_class(const struct ct_torch_region *r);
struct ct_torch_pool_totals ct_torch_pool_totals(const struct ct_torch_pool *p, const struct ct_live *l, int device);
// Bytes that are free inside segments but not in the largest free block.
static inline uint64_t ct_torch_pool_scattered(const struct ct_torch_pool *p, int device) {
    const struct ct_range_tree *f = p->device[device].free;
    return f[0].bytes + f[1].bytes - (f[0].largest > f[1].largest ? f[0].largest : f[1].largest);
}

#endif
