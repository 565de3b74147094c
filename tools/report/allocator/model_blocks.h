// SPDX-License-Identifier: Apache-2.0
// The blocks of the model: the list of a segment's, and the trees of those that are free.
#ifndef CT_MODEL_BLOCKS_H
#define CT_MODEL_BLOCKS_H

#include "allocator/model.h"

// A block that is in no list and no tree. Pointers to blocks become invalid.
uint32_t ct_model_block_new(struct ct_allocator_model *m, uint32_t arena, uint64_t address,
                            uint64_t size);
void ct_model_block_drop(struct ct_allocator_model *m, uint32_t block);
void ct_model_block_link(struct ct_allocator_model *m, uint32_t block, uint32_t previous,
                         uint32_t next);
// Puts a block into its arena's tree of free blocks.
void ct_model_block_cache(struct ct_allocator_model *m, uint32_t block);
// Joins a block, which is in no tree, with its neighbours, as far as they are as free as it is.
void ct_model_block_join(struct ct_allocator_model *m, uint32_t block);
// Addresses that no block of the model has.
uint64_t ct_model_address_space(struct ct_allocator_model *m, uint64_t bytes, uint64_t alignment);

static inline struct ct_tree_nodes ct_model_nodes(const struct ct_allocator_model *m) {
    return (struct ct_tree_nodes){m->blocks, sizeof *m->blocks};
}

#endif
