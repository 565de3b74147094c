// SPDX-License-Identifier: Apache-2.0
// Iterates over the blocks of PyTorch's that lie in its segments. It visits every live object, so
// it is for a few states of a trace only.
#ifndef CT_SEGMENT_BLOCKS_H
#define CT_SEGMENT_BLOCKS_H

#include "replay/replay.h"
#include "replay/torch_pool.h"

// Returns the next block of a device that lies in a segment, and that segment in *segment; NULL at
// the end. *slot begins with 0 and is the iterator's position.
const struct ct_object *ct_segment_blocks_next(const struct ct_replay *r, int device,
                                               uint32_t *slot,
                                               const struct ct_torch_region **segment);
// The earlier of two times, where 0 is no time yet.
uint64_t ct_segment_blocks_older(uint64_t a, uint64_t b);

#endif
