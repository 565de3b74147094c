// SPDX-License-Identifier: Apache-2.0
// A model of PyTorch's caching allocator on one device: which blocks it splits, joins and caches,
// and what it asks the driver for. ALLOCATOR.md says which rules it follows, and which it cannot.
#ifndef CT_ALLOCATOR_MODEL_H
#define CT_ALLOCATOR_MODEL_H

#include "allocator/block_tree.h"
#include "allocator/settings.h"

// More than any device has: sums of sizes and addresses do not overflow.
#define CT_MODEL_MOST_BYTES (UINT64_C(1) << 46)
#define CT_MODEL_ADDRESSES (UINT64_C(1) << 62)

enum ct_model_class { CT_MODEL_SMALL, CT_MODEL_LARGE, CT_MODEL_CLASSES };

// One block of a segment; its neighbours there are listed in the order of addresses.
struct ct_model_block {
    struct ct_tree_block tree; // size, address
    uint32_t previous, next;   // neighbours, or CT_NO_BLOCK
    uint32_t arena;
    uint8_t allocated, unmapped, expandable;
    uint64_t age_base; // requests of its class when it became free
};

// Blocks of one stream (and one private pool) and one class: only requests of the same get them.
struct ct_model_arena {
    struct ct_block_tree free, unmapped;
    enum ct_model_class class;
    uint64_t allocated; // blocks
};

struct ct_allocator_model {
    struct ct_allocator_settings settings;
    uint64_t device_total; // bytes of the device, for fractions of it and address space
    uint64_t room;         // the driver's memory for segments, at this time: the caller's
    uint64_t allowed;      // the caller's: most bytes of segments, by a fraction; UINT64_MAX: all
    uint64_t hint;         // where the driver puts the next segment: the caller's; 0: anywhere
    uint64_t space_hint;   // and the next address space: only their order matters
    uint64_t allocated, reserved, allocated_peak, reserved_peak;
    uint64_t driver_allocs, driver_frees; // memory taken from the driver and given back: calls
    uint64_t retries;                     // requests for which all cached segments were freed
    int took_whole;                       // the last block was a whole free block: it may be larger
                                          // than its request
    // Its own.
    struct ct_model_block *blocks;
    uint32_t block_count, block_room, spare;
    struct ct_model_arena *arenas;
    uint32_t arena_count, arena_room;
    uint64_t next_address;
    uint64_t spaces; // address spaces reserved so far
    int exhausted;   // no address space is left, by a hostile trace: no request succeeds any more
    uint64_t requests[CT_MODEL_CLASSES];
};

// `device_total`: see above; `room` begins with it, and `allowed` with all.
void ct_allocator_model_init(struct ct_allocator_model *m, const struct ct_allocator_settings *s,
                             uint64_t device_total);
// Allocates a block for a request of some bytes of stream `group`. Returns it, or CT_NO_BLOCK: out
// of memory.
uint32_t ct_allocator_model_alloc(struct ct_allocator_model *m, uint32_t group, uint64_t bytes);
void ct_allocator_model_free_block(struct ct_allocator_model *m, uint32_t block);
// Frees all cached segments, as empty_cache() does.
void ct_allocator_model_release_cached(struct ct_allocator_model *m);
// Whether a group has nothing in a class: no segment, and no address space.
int ct_allocator_model_is_empty(const struct ct_allocator_model *m, uint32_t group,
                                enum ct_model_class class);
// Whether a group has address space for a request of some bytes, with expandable segments.
int ct_allocator_model_has_place(const struct ct_allocator_model *m, uint32_t group,
                                 enum ct_model_class class, uint64_t bytes);
// The largest free block.
uint64_t ct_allocator_model_largest_free(const struct ct_allocator_model *m);
// A copy, to be freed like the original.
void ct_allocator_model_copy(struct ct_allocator_model *to, const struct ct_allocator_model *m);
void ct_allocator_model_free(struct ct_allocator_model *m);

#endif
