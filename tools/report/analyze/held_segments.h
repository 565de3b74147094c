// SPDX-License-Identifier: Apache-2.0
// Blocks that keep what is free around them from being of use: those of pinned segments, and those that lie in the way of a
// request. Found by looking at all blocks that are alive, so for a few moments of a trace.
#ifndef CT_PINNED_H
#define CT_PINNED_H

#include "analyze/pool_growth.h"

// A segment that cannot be given back although a part of it is free.
struct ct_held_segment {
    uint64_t start, bytes, free;
    uint64_t blocks, block_bytes, oldest_ns;
    uint32_t stack; // of its largest block
    uint64_t largest_block;
    int expandable, alone; // alone: all of its blocks are of this stack
};

// What the blocks of one stack pin.
struct ct_segment_holder {
    uint32_t stack;
    uint64_t blocks, block_bytes, oldest_ns;
    uint64_t segments, free_bytes; // that they lie in; free in those
    uint64_t alone_bytes;          // of segments that nobody else has blocks in
};

struct ct_held_segments {
    struct ct_held_segment *segments; // the most free bytes first
    struct ct_segment_holder *pinners;          // likewise
    size_t segment_count, pinner_count;
};

void ct_held_segments_find(struct ct_held_segments *p, const struct ct_replay *r, int device);
void ct_held_segments_free(struct ct_held_segments *p);

struct ct_obstructing_block {
    uint64_t start, bytes, t_ns, event;
    uint32_t stack;
};

enum { CT_OBSTRUCTION_BLOCKS = 8 };

// The cheapest place for a request: where the blocks between free ranges of one segment have the fewest bytes.
struct ct_obstruction {
    int known; // a segment of its class is as large as that
    uint64_t start, bytes;
    uint64_t blocks, block_bytes, oldest_ns;
    struct ct_obstructing_block named[CT_OBSTRUCTION_BLOCKS]; // the largest ones
    unsigned named_count;
};

struct ct_obstruction ct_obstruction_find(const struct ct_replay *r, int device, enum ct_torch_pool_class class,
                                uint64_t request);

#endif
