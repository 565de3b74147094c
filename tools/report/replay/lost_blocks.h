// SPDX-License-Identifier: Apache-2.0
// PyTorch's blocks, or parts of them, that lie in no memory of the driver's.
//
// Asleep: the memory was unmapped, and its reservation remains, as in the sleep modes of vLLM and
// torch_memory_saver. Outside: all others, of which the trace has no call to the driver.
#ifndef CT_LOST_BLOCKS_H
#define CT_LOST_BLOCKS_H

#include <cutrace/model/live.h>

#include "replay/range_tree.h"

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
