// SPDX-License-Identifier: Apache-2.0
// Blocks that keep what is free around them from being of use: those of pinned segments, and those that lie in the way of a
// request. Found by looking at all blocks that are alive, so for a few moments of a trace.
#ifndef CT_PINNED_H
#define CT_PINNED_H

#include "analyze/pool_growth.h"

// A segment that cannot be given back although a part of it is free.
struct ct_pinned_segment {
    uint64_t start, bytes, free;
    uint64_t blocks, block_bytes, oldest_ns;
    uint32_t stack; // of its largest block
    uint64_t largest_block;
    int expandable, alone; // alone: all of its blocks are of this stack
};

// What the blocks of one stack pin.
struct ct_pinner {
    uint32_t stack;
    uint64_t blocks, block_bytes, oldest_ns;
    uint64_t segments, free_bytes; // that they lie in; free in those
    uint64_t alone_bytes;          // of segments that nobody else has blocks in
};

struct ct_pinned {
    struct ct_pinned_segment *segments; // the most free bytes first
    struct ct_pinner *pinners;          // likewise
    size_t segment_count, pinner_count;
};

void ct_pinned_take(struct ct_pinned *p, const struct ct_replay *r, int device);
void ct_pinned_free(struct ct_pinned *p);

struct ct_tile {
    uint64_t start, bytes, t_ns, event;
    uint32_t stack;
};

enum { CT_BLOCKS_NAMED = 8 };

// The cheapest place for a request: where the blocks between free ranges of one segment have the fewest bytes.
struct ct_in_way {
    int known; // a segment of its class is as large as that
    uint64_t start, bytes;
    uint64_t blocks, block_bytes, oldest_ns;
    struct ct_tile named[CT_BLOCKS_NAMED]; // the largest ones
    unsigned named_count;
};

struct ct_in_way ct_in_way_take(const struct ct_replay *r, int device, enum ct_torch_pool_class class,
                                uint64_t request);

#endif
