// SPDX-License-Identifier: Apache-2.0
// How PyTorch obtained its segments: by which driver calls, and which library made them.
#ifndef CT_TORCH_SEGMENTS_H
#define CT_TORCH_SEGMENTS_H

#include "read/trace.h"
#include "replay/torch_pool.h"

enum ct_segment_kind {
    CT_SEGMENT_MALLOC,     // an allocation
    CT_SEGMENT_EXPANDABLE, // adjacent mappings in one reservation
    CT_SEGMENT_MAPPED,     // a single mapping
    CT_SEGMENT_ASYNC,      // a stream-ordered allocation
    CT_SEGMENT_KINDS,
};

struct ct_torch_segments {
    enum ct_segment_kind kind;
    uint32_t module; // path of the library that called the driver, a string's id; 0: not known
    int foreign;     // that is not one of PyTorch's: the own allocator of a MemPool
    uint64_t segments, bytes;
};

// The segments of a device by kind and library, the most bytes first. The caller frees the list.
struct ct_torch_segments *ct_torch_segments_by_kind(const struct ct_trace *t,
                                                    const struct ct_torch_pool *p, int device,
                                                    size_t *count);
const char *ct_torch_segments_kind_name(enum ct_segment_kind kind);
// The path of the library that called CUDA, a string's id; 0: not known.
uint32_t ct_torch_segments_caller(const struct ct_definitions *n, uint32_t stack);
// By stack, whether a library that is not one of PyTorch's called the driver. NULL if none did, or
// without PyTorch. Covers the stacks of now; those that are added later stand for threads and are
// of no driver call.
uint8_t *ct_torch_segments_foreign_stacks(const struct ct_definitions *n);

// ---- what settings mean -------------------------------------------------------------------------
// What the settings of PyTorch's allocator and the calls of a process mean for the figures of its
// pools. POOL.md has the rules.

// A text that says why PyTorch allocates memory without blocks, by the settings in the trace; NULL
// if it does not.
const char *ct_torch_settings_without_blocks(const struct ct_trace *t);
// Whether a request may be unable to use a free block that fits: other streams, blocks that a
// stream still uses, other pools.
int ct_torch_settings_limit_reuse(const struct ct_trace *t);
// Whether PyTorch may have served a request after a failed allocation without counting a retry.
int ct_torch_settings_hide_retries(const struct ct_trace *t);

#endif
