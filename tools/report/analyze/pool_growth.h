// SPDX-License-Identifier: Apache-2.0
// Requests for which PyTorch's pool grew or that ended out of memory, and whether the free memory
// in the pool would have been enough. POOL.md has the definitions.
#ifndef CT_POOL_GROWTH_H
#define CT_POOL_GROWTH_H

#include "analyze/driver_requests.h"
#include "base/map.h"
#include "replay/replay.h"

// Which stream PyTorch's segments are of, as far as their blocks were recorded with one, and what
// is free in those of other streams when a request fails: PyTorch gives a stream's cached memory to
// no other stream. POOL.md has the definitions.

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

enum ct_growth_cause {
    CT_GROWTH_NOT_ENOUGH_FREE, // the request exceeds all free memory of its class
    CT_GROWTH_FRAGMENTED,      // enough is free, but no single free block is large enough
    CT_GROWTH_FIT_UNUSED,      // a free block is large enough, but PyTorch did not use it
    CT_GROWTH_CAUSES,
};

struct ct_pool_growth {
    uint64_t event, t_ns;  // of the block-alloc or block-oom that reports the request
    uint64_t before_event; // the request's first call to the driver; `free` is the state before it
    uint64_t requested, obtained;
    struct ct_free_blocks free; // of the request's class and device
    uint32_t stack, thread;
    int device;
    uint8_t class, cause;  // enum ct_torch_pool_class, enum ct_growth_cause
    uint8_t oom;           // the request ended in a block-oom
    uint8_t driver_failed; // the driver had no memory for it at first
    // Of an OOM: when it was reported, after PyTorch gave back what it could.
    struct ct_other_streams others;
};

struct ct_pool_growth_counts {
    uint64_t grown[CT_GROWTH_CAUSES], ooms[CT_GROWTH_CAUSES];
    uint64_t retries; // requests for which PyTorch freed its cached segments and asked again
};

// The listed requests at most; where there are more, those with the most free bytes outside the
// largest free block.
enum { CT_POOL_GROWTHS_LISTED = 4096 };

struct ct_pool_growths {
    struct ct_pool_growth *list; // the fragmented ones and all OOMs, in the order of events
    size_t count, capacity;
    uint64_t left_out;
    struct ct_pool_growth_counts device[CT_DEVICES];
};

// Counts a request whose outcome is the event `e`, a block-alloc or block-oom.
void ct_pool_growth_count(struct ct_pool_growths *g, const struct ct_driver_request *q,
                          const struct ct_other_streams *others, const struct ct_event *e,
                          uint64_t number);
// The class of segments that serve a request of so many bytes.
enum ct_torch_pool_class ct_pool_growth_class(uint64_t requested);
// Whether a free block of another stream was large enough for a request that failed.
int ct_pool_growth_fits_other_stream(const struct ct_pool_growth *w);
// Finds the listed request that an event reports, or returns NULL.
const struct ct_pool_growth *ct_pool_growth_find(const struct ct_pool_growths *g, uint64_t event);
// Makes what was free on other streams unknown.
void ct_pool_growth_forget_streams(struct ct_pool_growths *g);
void ct_pool_growth_free(struct ct_pool_growths *g);
// Picks the requests of a device (an index) with the most free bytes outside the largest free
// block, OOMs first: at most `most`, in the order of events. The caller frees the list.
struct ct_pool_growth *ct_pool_growth_pick_worst(const struct ct_pool_growths *g, int device,
                                                 size_t most, size_t *count);
const char *ct_pool_growth_cause_name(enum ct_growth_cause cause); // for JSON

#endif
