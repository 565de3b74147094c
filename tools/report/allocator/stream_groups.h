// SPDX-License-Identifier: Apache-2.0
// Which of PyTorch's segments belong together: those of one stream (and one private pool). Blocks
// may be recorded with a stream (recorded.h). Beyond that, where each block was placed
// tells: PyTorch takes the smallest free block of the stream that fits. A smaller one that it
// passed over is of another stream, or waits for one; where it passes over none in many requests,
// both segments are of one stream. What it frees for a request that was refused is of the request's
// stream.
#ifndef CT_STREAM_GROUPS_H
#define CT_STREAM_GROUPS_H

#include "allocator/block_tree.h"
#include "allocator/recorded.h"
#include "allocator/settings.h"
#include "base/map.h"

enum { CT_STREAM_GROUPS_MOST = 256 }; // of one class
enum { CT_REFUSED_RANGES = 1024, CT_FREED_SEGMENTS = 16 };

struct ct_free_range {
    struct ct_tree_block by_size, by_address;
    uint32_t segment;
};

struct ct_grouped_segment {
    uint64_t key, bytes;
    uint8_t small;
    uint16_t group;
    uint32_t apart; // its group if only what is likely counts: often one of its own
};

// Two segments, and what placements tell of them.
struct ct_segment_pair {
    uint32_t segment, other;
    uint32_t passed_over; // how often a block in one was passed over for a block in the other
    uint32_t kept : 31;   // how often it could have been passed over, but was not
    uint32_t surely : 1;  // both are of one stream
};

struct ct_stream_groups {
    struct ct_allocator_settings settings; // of the recorded allocator
    // The caller's: whether it is known which of two free blocks of one size is taken, and whether
    // that is the one of the older segment, or the one with the lower address.
    int order_is_known, by_creation;
    struct ct_grouped_segment *segments;
    uint32_t segment_count, segment_room;
    struct ct_recorded_streams recorded; // the caller's
    struct ct_map by_key;                // key of a segment -> its index
    struct ct_segment_pair *pairs;
    uint32_t pair_count, pair_room;
    struct ct_map pair_index; // both segments of a pair -> its index
    struct ct_free_range *ranges;
    uint32_t range_count, range_room, spare;
    uint32_t cached;                             // segments that are free as a whole
    struct ct_block_tree by_size[2], by_address; // by_size: of large segments, of small ones
    // What was free when a thread's call to the driver failed, until its next block: PyTorch frees
    // segments before it repeats the call.
    struct ct_refused_ranges {
        struct ct_refused_range {
            uint64_t size;
            uint32_t segment;
        } list[CT_REFUSED_RANGES];
        uint32_t count, thread;
        int open;
        uint64_t bytes;    // that the driver refused; 0: a limit of PyTorch's own did
        uint32_t refusals; // by the driver
        // The segments that were freed since then, up to a second refusal; more than these are not
        // looked at.
        uint32_t freed[CT_FREED_SEGMENTS], freed_count;
        uint64_t freed_bytes, last_bytes;
        int freed_in_order; // none could be split, and none is larger than the one before
        // What was freed may be garbage, of any stream, and not for the request.
        int may_be_garbage;
        // How many of the first of them may have been freed for the request alone.
        uint32_t may_be_available;
    } refused;
    uint64_t passed_over, waited; // free blocks of another segment, and of the same one
    uint64_t pairs_left_out;
    uint32_t groups[2];    // after ct_stream_groups_finish: of large segments, of small ones
    uint64_t contradicted; // of passed_over, those within a group
};

// A segment of cudaMalloc's in which a block lies. `key`: what tells it from all others.
struct ct_block_segment {
    uint64_t key, start, bytes;
};

void ct_stream_groups_init(struct ct_stream_groups *g, const struct ct_allocator_settings *s);
// A block is allocated by a thread, is freed; a segment ends.
void ct_stream_groups_note_alloc(struct ct_stream_groups *g, const struct ct_block_segment *s,
                                 uint32_t thread, uint64_t address, uint64_t bytes);
void ct_stream_groups_note_free(struct ct_stream_groups *g, const struct ct_block_segment *s,
                                uint64_t address, uint64_t bytes);
// The driver refuses a thread a segment of some bytes; the thread's request ends without a block.
void ct_stream_groups_note_refusal(struct ct_stream_groups *g, uint32_t thread, uint64_t bytes);
// A thread frees a segment after that.
void ct_stream_groups_note_freed(struct ct_stream_groups *g, uint32_t thread, uint64_t key,
                                 uint64_t bytes);
// A thread begins to free segments inside a request, because of a limit of PyTorch's own.
void ct_stream_groups_note_release(struct ct_stream_groups *g, uint32_t thread, int may_be_garbage);
void ct_stream_groups_note_oom(struct ct_stream_groups *g, uint32_t thread);
void ct_stream_groups_note_end(struct ct_stream_groups *g, uint64_t start, uint64_t bytes);
// After the last event: puts each segment into a group. Returns -1 if there are too many groups.
int ct_stream_groups_finish(struct ct_stream_groups *g);
// The segment with a key, or NULL.
const struct ct_grouped_segment *ct_stream_groups_find(const struct ct_stream_groups *g,
                                                       uint64_t key);
void ct_stream_groups_free(struct ct_stream_groups *g);

#endif
