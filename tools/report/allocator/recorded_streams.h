// SPDX-License-Identifier: Apache-2.0
// Which streams the blocks of a segment were recorded with: the current streams of the threads that
// requested them. A request that names its stream may name another one, so that one block proves
// nothing. How often the blocks of one segment disagree tells how far one block can be trusted.
#ifndef CT_RECORDED_STREAMS_H
#define CT_RECORDED_STREAMS_H

#include <cutrace/format/format.h>

#include "base/map.h"

enum { CT_RECORDED_STREAMS_MOST = 255, CT_NO_RECORDED_STREAM = CT_RECORDED_STREAMS_MOST };

// A segment: its blocks with a known stream, and how many are of the most frequent one.
struct ct_recorded_segment {
    uint32_t blocks, most;
    uint32_t stream; // the most frequent one; CT_NO_RECORDED_STREAM: none
};

struct ct_recorded_streams {
    int are_recorded;     // else nothing is known
    struct ct_map number; // PyTorch's number of a stream -> ours + 1
    struct ct_map by_key; // key of a segment -> its index
    struct ct_map votes;  // index of a segment << 8 | our number of a stream -> blocks
    struct ct_recorded_segment *segments;
    uint32_t count, room;
    // After _finish: of a block, as a logarithm of how likely its stream is the right one.
    double weight;
};

// The key of address space (of an expandable segment) that begins at a multiple of pages. `ends`:
// of each start, how often the space there has ended.
uint64_t ct_recorded_streams_space_key(const struct ct_map *ends, uint64_t start);
// A block-alloc in the segment, or the address space, with a key.
void ct_recorded_streams_note(struct ct_recorded_streams *r, uint64_t key,
                              const struct ct_event *e);
// After the last event. `certain`: the weight of a block if no two blocks of a segment disagree.
void ct_recorded_streams_finish(struct ct_recorded_streams *r, double certain);
// The most frequent stream of a segment, or CT_NO_RECORDED_STREAM.
uint32_t ct_recorded_streams_find(const struct ct_recorded_streams *r, uint64_t key);
// How much the blocks of a segment speak against a stream, compared with the most frequent one:
// 0 or more.
double ct_recorded_streams_against(const struct ct_recorded_streams *r, uint64_t key,
                                   uint32_t stream);
void ct_recorded_streams_free(struct ct_recorded_streams *r);

#endif
