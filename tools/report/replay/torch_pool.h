// SPDX-License-Identifier: Apache-2.0
// PyTorch's memory pools: the segments that it allocated from the driver, tiled by the blocks that
// it handed out and the free blocks between them. POOL.md defines each figure.
//
// Nothing is stored before the first block. From then on a change takes time in the logarithm of
// what is live.
#ifndef CT_TORCH_POOL_H
#define CT_TORCH_POOL_H

#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

#include "base/map.h"
#include "replay/range_tree.h"
#include "replay/segment_members.h"

// Which code resumed memory that had slept: by the stack that the memory, or the block in it,
// belongs to, the stack of the last mapping that gave it new memory.

enum ct_resumed_kind { CT_RESUMED_MEMORY, CT_RESUMED_BLOCK, CT_RESUMED_KINDS };

struct ct_resumers {
    struct ct_map of[CT_RESUMED_KINDS];
};

static inline void ct_resumers_note(struct ct_resumers *r, enum ct_resumed_kind kind,
                                    uint32_t stack, uint32_t by) {
    *ct_map_add(&r->of[kind], stack) = by;
}

// The stack, or 0 if it is not known.
static inline uint32_t ct_resumers_find(const struct ct_resumers *r, enum ct_resumed_kind kind,
                                        uint32_t stack) {
    const uint64_t *by = ct_map_find(&r->of[kind], stack);
    return by ? (uint32_t)*by : 0;
}

static inline int ct_resumers_are_any(const struct ct_resumers *r) {
    size_t count = 0;
    for (unsigned kind = 0; kind < CT_RESUMED_KINDS; kind++)
        count += r->of[kind].count;
    return count != 0;
}

static inline void ct_resumers_free(struct ct_resumers *r) {
    for (unsigned kind = 0; kind < CT_RESUMED_KINDS; kind++)
        ct_map_free(&r->of[kind]);
}

// The class of a segment follows from its size when PyTorch allocated it.
enum ct_torch_pool_class {
    CT_TORCH_POOL_SMALL,
    CT_TORCH_POOL_LARGE,
    CT_TORCH_POOL_CLASSES,
};
#define CT_TORCH_POOL_SMALL_SEGMENT (UINT64_C(2) << 20) // exactly: every other size is large
#define CT_TORCH_POOL_SMALL_BLOCK (UINT64_C(1) << 20)   // largest block in a small segment

// Contiguous memory of the driver: an allocation, or adjacent mappings in one reservation. It is a
// segment once a block was in it.
struct ct_torch_region {
    uint64_t start, bytes; // bytes 0: not in use
    uint64_t free;         // of a segment: bytes in no block
    uint64_t piece;        // bytes of the driver call that began it
    uint64_t reservation;  // start of the reservation, 0: none, or not known
    uint64_t t_ns, event;  // of that driver call
    uint32_t stack, api;
    uint32_t maps; // number of mappings, 0: an allocation
    uint8_t device, held, async;
    uint8_t foreign;    // allocated by a MemPool's own allocator: not in PyTorch's reserved total
    uint32_t next_free; // of a region that is not in use
};

struct ct_free_blocks {
    uint64_t ranges, bytes, largest;
};

// The figures of a device at one time.
struct ct_torch_pool_totals {
    int known;          // blocks were seen
    int reported;       // PyTorch reported its totals
    uint64_t allocated; // its total with the last block
    uint64_t reserved;  // its total with the last block, adjusted by its segments since then
    // reserved - segment_bytes - asleep_segment_bytes after the last event of a block
    int64_t unreconciled;
    uint64_t blocks, block_bytes;
    uint64_t segments, segment_bytes;
    uint64_t idle_segments, idle_bytes;           // without a block: could be freed
    uint64_t held_open_segments, held_open_bytes; // with blocks and free bytes: these free bytes
    uint64_t outside_bytes;                       // of blocks in memory that is not known
    // Blocks, and segments that PyTorch still counts, whose memory was unmapped while the
    // reservation remains.
    uint64_t asleep_bytes, asleep_segment_bytes;
    struct ct_free_blocks free, of_class[CT_TORCH_POOL_CLASSES];
};

struct ct_torch_pool_device {
    int seen; // a block was seen
    struct ct_range_tree free[CT_TORCH_POOL_CLASSES];
    struct ct_lost_blocks lost;
    uint64_t segments, segment_bytes, idle_segments, idle_bytes, held_open_segments,
        held_open_bytes;
    uint64_t own_bytes; // of segment_bytes, those that are not foreign
    int64_t unreconciled;
    uint64_t own_reported; // own_bytes after the last event of a block
};

struct ct_torch_pool {
    int on; // a block was seen
    struct ct_segment_members members;
    struct ct_range_tree memory;   // marked with the region's index
    struct ct_range_tree reserved; // reservations
    struct ct_torch_region *regions;
    uint32_t region_count, region_room, free_region;
    uint32_t recent[4096]; // regions that were found lately, by address
    struct ct_torch_pool_device device[CT_DEVICES];
    struct ct_resumers *resumers; // where to note who resumed blocks
    const uint8_t *foreign;       // by stack
    size_t foreign_count;
};

#define CT_TORCH_POOL_NO_REGION UINT32_MAX

// Starts to follow the live objects, beginning with those of now. `foreign`: for `count` stacks,
// whether a MemPool's own allocator called the driver, or NULL; stays the caller's.
void ct_torch_pool_begin(struct ct_torch_pool *p, struct ct_live *l, const uint8_t *foreign,
                         size_t count, const struct ct_segment_watch *watch);
// Before all objects are removed: none of them is a segment or lies in one any more.
void ct_torch_pool_forget(struct ct_torch_pool *p);
void ct_torch_pool_free(struct ct_torch_pool *p);
// Prefetches what a block at the address needs; see ct_range_tree_prefetch.
void ct_torch_pool_prefetch(const struct ct_torch_pool *p, uint64_t address, int stage);
// To be called after ct_live_apply of an event of a block, which reports PyTorch's totals.
void ct_torch_pool_reported(struct ct_torch_pool *p, const struct ct_live *l, int device);
// To be called after an event that mapped memory at an address: only then its handle is known.
void ct_torch_pool_note_mapping(struct ct_torch_pool *p, uint64_t address);
// From a checkpoint: the memory at an address is a segment.
void ct_torch_pool_restore_segment(struct ct_torch_pool *p, uint64_t address, int device);
// After a checkpoint, in which mappings precede the handles that know their device.
void ct_torch_pool_assign_devices(struct ct_torch_pool *p, const struct ct_live *l);

// The segment at an address, or NULL.
const struct ct_torch_region *ct_torch_pool_find_segment(const struct ct_torch_pool *p,
                                                         uint64_t address);
// Whether an allocation or a VMM object is a segment, or is mapped into one.
int ct_torch_pool_is_segment(const struct ct_torch_pool *p, const struct ct_object *o);
enum ct_torch_pool_class ct_torch_pool_region_class(const struct ct_torch_region *r);
struct ct_torch_pool_totals ct_torch_pool_totals(const struct ct_torch_pool *p,
                                                 const struct ct_live *l, int device);
// Free bytes of a device outside its largest free block.
static inline uint64_t ct_torch_pool_scattered(const struct ct_torch_pool *p, int device) {
    const struct ct_range_tree *f = p->device[device].free;
    const uint64_t largest = f[0].largest > f[1].largest ? f[0].largest : f[1].largest;
    return f[0].bytes + f[1].bytes - largest;
}

#endif
