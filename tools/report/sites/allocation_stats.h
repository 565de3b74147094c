// SPDX-License-Identifier: Apache-2.0
// How large allocations and PyTorch's blocks are, how long they live, and what the calls that made
// them cost.
#ifndef CT_ALLOCATION_STATS_H
#define CT_ALLOCATION_STATS_H

#include "replay/replay.h"

// Sizes by powers of two: element i has those in [2^(i-1), 2^i), element 0 those of 0 bytes.
// Lifetimes by powers of ten: element i has those shorter than 10^i microseconds and in no element
// before, the last one all others.
enum { CT_STATS_SIZES = 65, CT_STATS_LIFETIMES = 12 };

struct ct_stats_bar {
    uint64_t count, bytes;
};

struct ct_size_count {
    uint64_t size, count;
};

enum ct_stats_kind {
    CT_STATS_ALLOCATIONS, // of the driver: what counts in live_bytes
    CT_STATS_BLOCKS,
    CT_STATS_KINDS
};

// Allocations, or blocks, of one device.
struct ct_object_stats {
    struct ct_stats_bar sizes[CT_STATS_SIZES];         // of those allocated in the range
    struct ct_stats_bar lifetimes[CT_STATS_LIFETIMES]; // of those freed in the range
    struct ct_stats_bar allocated, freed, live;        // live: at the end of the range
    struct ct_size_count *by_size;                     // the most bytes in all first
    size_t size_count;
    struct ct_map positions; // size -> its position + 1, while events are counted
    size_t size_capacity;
};

// Calls of one function that allocate or free. They need not be of one device.
struct ct_call_stats {
    uint32_t api, op; // `api`: a string's id, 0: unknown
    uint64_t count;   // with those that failed
    uint64_t failed, out_of_memory;
    uint64_t bytes;                   // of those that succeeded; 0 where events have none
    uint64_t timed;                   // calls whose duration was recorded
    uint64_t duration_ns, longest_ns; // of these
};

struct ct_allocation_stats {
    struct ct_object_stats of[CT_DEVICES][CT_STATS_KINDS];
    struct ct_call_stats *calls; // the longest in all first, then the most
    size_t call_count, call_capacity;
    struct ct_map call_positions;
    uint64_t lost; // events that were lost up to the end of the range
};

struct ct_stats_request {
    uint64_t from_ns, to_ns;
    int device; // -1: all
};

// Reads the trace, whose `details` are set: durations of frees come late.
void ct_allocation_stats_read(struct ct_allocation_stats *s, struct ct_trace *t,
                              const struct ct_stats_request *request);
void ct_allocation_stats_free(struct ct_allocation_stats *s);

#endif
