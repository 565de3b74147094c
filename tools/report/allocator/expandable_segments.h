// SPDX-License-Identifier: Apache-2.0
// Expandable segments: each stream and class has one range of address space, into which memory is
// mapped in pages.
#ifndef CT_EXPANDABLE_SEGMENTS_H
#define CT_EXPANDABLE_SEGMENTS_H

#include "allocator/model.h"

// Among the free blocks of an arena from `block` on, the one that PyTorch prefers.
uint32_t ct_expandable_prefer(const struct ct_allocator_model *m, uint32_t block);
// Maps memory for a request. Returns a block that is large enough and in no tree, or CT_NO_BLOCK:
// the driver has not enough.
uint32_t ct_expandable_grow(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes);
// Whether a group has address space for a request of some bytes.
int ct_expandable_has_place(const struct ct_allocator_model *m, uint32_t group,
                            enum ct_model_class class, uint64_t bytes);
// Gives the whole pages of a free block back.
void ct_expandable_unmap(struct ct_allocator_model *m, uint32_t block);

#endif
