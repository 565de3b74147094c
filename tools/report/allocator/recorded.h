// SPDX-License-Identifier: Apache-2.0
// What the passes over a recording ask of its events and of the replay: blocks and the memory that
// they lie in, the streams that they were recorded with, and when cached segments were given back.
#ifndef CT_ALLOCATOR_RECORDED_H
#define CT_ALLOCATOR_RECORDED_H

#include "allocator/what_if.h"
#include "base/map.h"
#include "replay/replay.h"
#include "replay/torch_segments.h"

// Threads whose numbers are equal but for multiples share a state.
enum { CT_RECORDED_THREADS = 256 };

// The memory that a block lies in, or NULL if it is none of PyTorch's own.
static inline const struct ct_torch_region *ct_recorded_region(const struct ct_replay *r,
                                                               uint64_t address, int device) {
    const struct ct_torch_region *region = ct_torch_pool_find_segment(&r->pool, address);
    return region && !region->foreign && !region->async && region->device == device ? region : NULL;
}

static inline int ct_recorded_is_block(const struct ct_event *e) {
    return e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_BLOCK_FREE || e->op == CT_OP_BLOCK_OOM;
}

static inline int ct_recorded_is_block_of(const struct ct_event *e, int device) {
    return ct_recorded_is_block(e) && ct_event_device_index(e) == device && CT_HAS(e, bytes);
}

// ---- when PyTorch gave cached segments back -----------------------------------------------------

// A thread frees segments, and none of its calls to the driver has failed since its last block:
// empty_cache(), or, with a limit of PyTorch's own, inside a request.
struct ct_release {
    int open;
    uint32_t thread;
    int grew;        // then the thread asked the driver for memory
    uint64_t before; // bytes that PyTorch had reserved
};

// Follows a call to the driver. `failed`: whether one has failed since the thread's last block.
// Returns whether a release begins.
int ct_release_note(struct ct_release *f, const struct ct_replay *r, const struct ct_event *e,
                    int device, int failed);
// Whether what was freed may be garbage (garbage_collection_threshold).
int ct_release_may_be_garbage(const struct ct_release *f, const struct ct_what_if *w);
// Whether an event of a block can end the request inside which the segments were freed. If not,
// empty_cache() freed them.
int ct_release_is_inside_request(const struct ct_release *f, const struct ct_what_if *w,
                                 const struct ct_event *e);

// ---- streams ------------------------------------------------------------------------------------
// Which streams the blocks of a segment were recorded with: the current streams of the threads that
// requested them. A request that names its stream may name another one, so that one block proves
// nothing. How often the blocks of one segment disagree tells how far one block can be trusted.

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

// ---- the second pass ----------------------------------------------------------------------------
// Each block is requested from every model, as large as it may have been, and what the models
// reserve is compared with what PyTorch reported.

struct ct_stream_groups;

// `total`: bytes of the recorded device. `less`, `more`: by so much the driver has less or more
// than was recorded, but in the check. Fills in all of `w` but its state.
void ct_model_pass_run(struct ct_what_if *w, struct ct_trace *t, const struct ct_stream_groups *g,
                       uint64_t total, uint64_t less, uint64_t more);
// What PyTorch's own limit leaves in a model.
uint64_t ct_model_pass_allowed(const struct ct_what_if *w, int side, uint64_t total);

#endif
