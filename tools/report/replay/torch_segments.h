// SPDX-License-Identifier: Apache-2.0
// How PyTorch came by a segment, and by memory at all: what the driver's calls and the facts of a trace tell of it.
#ifndef CT_ORIGIN_H
#define CT_ORIGIN_H

#include "read/trace.h"
#include "replay/torch_pool.h"

enum ct_segment_kind {
    CT_SEGMENT_MALLOC,     // an allocation
    CT_SEGMENT_EXPANDABLE, // mappings side by side in one reservation
    CT_SEGMENT_MAPPED,     // a single mapping
    CT_SEGMENT_ASYNC,      // a stream-ordered allocation
    CT_SEGMENT_KINDS,
};

struct ct_torch_segments {
    enum ct_segment_kind kind;
    uint32_t module; // that called the driver, as a string's id; 0: not known
    int foreign;     // it is none of PyTorch's own: a MemPool with an allocator of its own
    uint64_t segments, bytes;
};

// The segments of a device by how they were obtained, the most bytes first. The caller frees the list.
struct ct_torch_segments *ct_torch_segments_by_kind(const struct ct_trace *t, const struct ct_torch_pool *p,
                                              int device, size_t *count);
const char *ct_torch_segments_kind_name(enum ct_segment_kind kind);
// The path of the library that called CUDA, as a string's id; 0: not known.
uint32_t ct_torch_segments_caller(const struct ct_definitions *n, uint32_t stack);

// Of each stack, whether who called the driver is none of PyTorch's libraries; NULL: nobody is, or PyTorch is not there.
// (By a stack's number, and as many as the names have now: threads may add some that nobody's call is on.)
uint8_t *ct_torch_segments_foreign_stacks(const struct ct_definitions *n);

// Where PyTorch's allocator hands out memory without blocks, by the settings in the trace: a text; else NULL.
const char *ct_torch_settings_without_blocks(const struct ct_trace *t);
// Whether a free block may be of no use to who asks: other streams, blocks still in use on one, other pools. POOL.md has the rule.
int ct_torch_settings_limit_reuse(const struct ct_trace *t);
// Whether a request that the driver refused may have been served without what PyTorch counts as a retry.
int ct_torch_settings_hide_retries(const struct ct_trace *t);

#endif
