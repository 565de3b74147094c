// SPDX-License-Identifier: Apache-2.0
// Which live objects belong to PyTorch's segments: the allocations and VMM objects that are their
// memory, and the blocks that lie in them.
//
// An allocation is a segment from its first block on; a VMM object is one while it is mapped into a
// segment. A block belongs to segments if all of it lies in memory whose allocation was recorded.
#ifndef CT_SEGMENT_MEMBERS_H
#define CT_SEGMENT_MEMBERS_H

#include <cutrace/model/live.h>

#include "replay/range_tree.h"

// Whom to tell. A function may be NULL.
struct ct_segment_watch {
    // A block joins (+1) or leaves (-1) the blocks that lie in segments.
    void (*block_changed)(void *user, const struct ct_object *block, int sign);
    // An allocation or a VMM object becomes a segment (+1), or is none any more (-1): before an
    // allocation is freed, and when the last mapping of a VMM object ends.
    void (*segment_changed)(void *user, const struct ct_object *object, int sign);
    void *user;
};

enum ct_block_place {
    CT_BLOCK_OUTSIDE, // not all of it lies in segments
    CT_BLOCK_INSIDE,
    CT_BLOCK_RESUMED, // inside, and its memory is younger: it has slept
};

struct ct_segment_members {
    struct ct_live *live;
    struct ct_segment_watch watch;
};

void ct_segment_members_set_block(const struct ct_segment_members *m, struct ct_object *block,
                                  enum ct_block_place place);
// The allocation at an address becomes a segment.
void ct_segment_members_add_allocation(const struct ct_segment_members *m, uint64_t address);
// An allocation or a VMM object is no segment any more.
void ct_segment_members_drop_allocation(const struct ct_segment_members *m,
                                        const struct ct_object *o);
// The VMM objects of the adjacent mappings in [start, end), the first of which begins at `start`,
// become segments.
void ct_segment_members_add_mappings(const struct ct_segment_members *m, uint64_t start,
                                     uint64_t end);
// A mapping of a VMM object ends.
void ct_segment_members_drop_mapping(const struct ct_segment_members *m, uint64_t handle);
// The memory below the blocks in [start, end) came or went: asks `find_place` of each of them;
// NULL: none lies in segments any more.
void ct_segment_members_move_blocks(
    const struct ct_segment_members *m, uint64_t start, uint64_t end,
    enum ct_block_place (*find_place)(void *user, const struct ct_object *block), void *user);

// PyTorch's blocks, or parts of them, that lie in no memory of the driver's.
//
// Asleep: the memory was unmapped, and its reservation remains, as in the sleep modes of vLLM and
// torch_memory_saver. Outside: all others, of which the trace has no call to the driver.

// Of one device.
struct ct_lost_blocks {
    struct ct_range_tree outside, asleep;
};

// Adds [start, end). `reserved`: the reservations of `l`.
void ct_lost_blocks_add(struct ct_lost_blocks *b, const struct ct_range_tree *reserved,
                        const struct ct_live *l, uint64_t start, uint64_t end);
void ct_lost_blocks_remove(struct ct_lost_blocks *b, uint64_t start, uint64_t end);
// Finds the first range in [*start, *end), and sets *start and *end to its bounds there. Returns 0
// if there is none.
int ct_lost_blocks_find(const struct ct_lost_blocks *b, uint64_t *start, uint64_t *end);
// The reservation of [start, end) ends: nothing sleeps there any more.
void ct_lost_blocks_end_sleep(struct ct_lost_blocks *b, uint64_t start, uint64_t end);
void ct_lost_blocks_clear(struct ct_lost_blocks *b);

#endif
