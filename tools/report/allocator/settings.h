// SPDX-License-Identifier: Apache-2.0
// The settings of PyTorch's caching allocator (PYTORCH_CUDA_ALLOC_CONF), as far as the model knows
// them, and the sizes that follow from them.
#ifndef CT_ALLOCATOR_SETTINGS_H
#define CT_ALLOCATOR_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#define CT_ALLOCATOR_MIN_BLOCK UINT64_C(512)            // kMinBlockSize
#define CT_ALLOCATOR_SMALL (UINT64_C(1) << 20)          // kSmallSize
#define CT_ALLOCATOR_SMALL_SEGMENT (UINT64_C(2) << 20)  // kSmallBuffer
#define CT_ALLOCATOR_LARGE_SEGMENT (UINT64_C(20) << 20) // kLargeBuffer
#define CT_ALLOCATOR_MIN_LARGE (UINT64_C(10) << 20)     // kMinLargeAlloc
#define CT_ALLOCATOR_ROUND_LARGE (UINT64_C(2) << 20)    // kRoundLarge
enum { CT_ALLOCATOR_DIVISIONS = 16 };

struct ct_allocator_settings {
    int expandable;         // expandable_segments
    uint64_t max_split;     // bytes; UINT64_MAX: every block may be split
    uint64_t max_rounding;  // bytes by which an oversize block may exceed its request
    uint64_t large_segment; // bytes of a segment for requests of 1 to 10 MiB
    uint32_t collect_ppm;   // garbage_collection_threshold, in millionths; 0: never
    uint32_t fraction_ppm;  // per_process_memory_fraction, in millionths; 0: not set
    // roundup_power2_divisions, by the power of two of the size in MiB; 0: none
    uint32_t divisions[CT_ALLOCATOR_DIVISIONS];
    int has_rest; // the list ends with ">:N", which is for the sizes after `last`
    unsigned last;
};

enum { CT_ALLOCATOR_SETTINGS_ERROR = 200 };

// PyTorch's defaults.
struct ct_allocator_settings ct_allocator_settings_default(void);
// Reads a text as PyTorch does. Returns 0, or -1 with one line that says which part is wrong or not
// modelled; bytes of the text that are not printable are replaced in it.
int ct_allocator_settings_parse(struct ct_allocator_settings *s, const char *text, size_t length,
                                char error[CT_ALLOCATOR_SETTINGS_ERROR]);
// Before 2.9, the end of a list of divisions is for the last size that the list names, too.
void ct_allocator_settings_fit_version(struct ct_allocator_settings *s, unsigned minor);
// The size of the block that a request of some bytes gets.
uint64_t ct_allocator_round(const struct ct_allocator_settings *s, uint64_t bytes);
// The size of the segment that is allocated for a block of a size.
uint64_t ct_allocator_segment_size(const struct ct_allocator_settings *s, uint64_t bytes);

// A trace has the sizes of blocks, not of what was asked for: between which bounds that lies.

// The most that the request of a block can have been: where sizes are rounded to steps, a block
// between two of them was larger than what it was taken for.
uint64_t ct_request_most(const struct ct_allocator_settings *s, uint64_t bytes);
// The least that a block's request can have been, `whole`: if it got a whole free block.
uint64_t ct_request_least(const struct ct_allocator_settings *s, uint64_t bytes, int whole);

#endif
