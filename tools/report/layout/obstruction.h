// SPDX-License-Identifier: Apache-2.0
// The blocks that obstruct a request: of all places in one segment where the request would fit if
// blocks were freed, the place whose blocks have the fewest bytes. POOL.md has the definition.
#ifndef CT_OBSTRUCTION_H
#define CT_OBSTRUCTION_H

#include "layout/segment_blocks.h"

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

#endif
