// SPDX-License-Identifier: Apache-2.0
// Which stream PyTorch's segments are of, as far as their blocks were recorded with one, and what
// is free in those of other streams when a request fails: PyTorch gives a stream's cached memory to
// no other stream. POOL.md has the definitions.
#ifndef CT_SEGMENT_STREAMS_H
#define CT_SEGMENT_STREAMS_H

#include "base/map.h"
#include "replay/replay.h"

struct ct_segment_streams {
    int are_recorded; // else nothing is known
    // Blocks of one segment were recorded with different streams: there are requests that name
    // their stream, so that nothing can be said of segments with few blocks either.
    int disagree;
    // The event of a segment, or the address space that its mappings lie in -> the stream of its
    // blocks + 1; 0: of none.
    struct ct_map of;
    uint64_t looked_at; // segments and free blocks, for all requests that failed
};

// What is free for a class of requests in segments of other streams than a request's.
struct ct_other_streams {
    int known; // the request's stream is
    struct ct_free_blocks free;
    uint64_t unknown; // free bytes in segments whose stream is not known
};

void ct_segment_streams_init(struct ct_segment_streams *s, const struct ct_trace *t);
// Every event, after it was applied.
void ct_segment_streams_note(struct ct_segment_streams *s, const struct ct_replay *r,
                             const struct ct_event *e);
// For a block-oom. If a trace has too many of them and of segments, later ones are not known.
struct ct_other_streams ct_segment_streams_find_others(struct ct_segment_streams *s,
                                                       const struct ct_replay *r,
                                                       const struct ct_event *e, int device,
                                                       enum ct_torch_pool_class class);
void ct_segment_streams_free(struct ct_segment_streams *s);

#endif
