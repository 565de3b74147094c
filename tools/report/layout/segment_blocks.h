// SPDX-License-Identifier: Apache-2.0
// What the blocks of PyTorch's that lie in its segments obstruct and hold open. Each question
// visits every live object, so it is for a few states of a trace only.
#ifndef CT_SEGMENT_BLOCKS_H
#define CT_SEGMENT_BLOCKS_H

#include "replay/replay.h"
#include "replay/torch_pool.h"
#include "sites/site_groups.h"

// The blocks that obstruct a request: of all places in one segment where the request would fit if
// blocks were freed, the place whose blocks have the fewest bytes. POOL.md has the definition.

struct ct_obstructing_block {
    uint64_t start, bytes, t_ns, event;
    uint32_t stack;
};

enum { CT_OBSTRUCTION_BLOCKS = 8 };

struct ct_obstruction {
    int known; // a segment of the request's class is at least as large as the request
    uint64_t start, bytes;
    uint64_t blocks, block_bytes, oldest_ns;
    struct ct_obstructing_block largest[CT_OBSTRUCTION_BLOCKS];
    unsigned largest_count;
};

struct ct_obstruction ct_obstruction_find(const struct ct_replay *r, int device,
                                          enum ct_torch_pool_class class, uint64_t request);

// Segments that blocks hold open: partly free, but PyTorch cannot return them to the driver. Listed
// by segment and by the call site of the blocks.

struct ct_held_segment {
    uint64_t start, bytes, free;
    uint64_t blocks, block_bytes, oldest_ns;
    uint32_t stack;                        // of its largest block
    uint64_t largest_block, largest_event; // its size, and the event that made it
    int expandable;
    int exclusive; // all of its blocks have this call site
};

// The blocks of one call site in held segments.
struct ct_segment_holder {
    uint32_t stack; // one of the site's
    uint64_t blocks, block_bytes, oldest_ns;
    uint64_t segments, free_bytes; // the segments that they hold open; free bytes in those
    uint64_t exclusive_bytes;      // of segments that no other site has blocks in
};

struct ct_held_segments {
    struct ct_held_segment *segments;  // the most free bytes first
    struct ct_segment_holder *holders; // the most free bytes first
    size_t segment_count, holder_count;
};

// Stacks with the same label are one call site, as in site_groups.h.
void ct_held_segments_find(struct ct_held_segments *h, struct ct_call_sites *sites,
                           const struct ct_replay *r, int device);
void ct_held_segments_free(struct ct_held_segments *h);

#endif
