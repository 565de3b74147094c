// SPDX-License-Identifier: Apache-2.0
#include "allocator/model_blocks.h"

#include "base/heap.h"

uint32_t ct_model_block_new(struct ct_allocator_model *m, uint32_t arena, uint64_t address,
                            uint64_t size) {
    uint32_t block = m->spare;
    if (block != CT_NO_BLOCK) {
        m->spare = m->blocks[block].next;
    } else {
        CT_HEAP_GROW(m->blocks, m->block_count, m->block_room);
        block = m->block_count++;
    }
    m->blocks[block] = (struct ct_model_block){.tree = {.size = size, .address = address},
                                               .previous = CT_NO_BLOCK,
                                               .next = CT_NO_BLOCK,
                                               .arena = arena};
    return block;
}

void ct_model_block_drop(struct ct_allocator_model *m, uint32_t block) {
    m->blocks[block].next = m->spare;
    m->spare = block;
}

void ct_model_block_link(struct ct_allocator_model *m, uint32_t block, uint32_t previous,
                         uint32_t next) {
    m->blocks[block].previous = previous;
    m->blocks[block].next = next;
    if (previous != CT_NO_BLOCK)
        m->blocks[previous].next = block;
    if (next != CT_NO_BLOCK)
        m->blocks[next].previous = block;
}

void ct_model_block_cache(struct ct_allocator_model *m, uint32_t block) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    struct ct_model_block *b = &m->blocks[block];
    struct ct_model_arena *arena = &m->arenas[b->arena];
    b->allocated = 0;
    b->age_base = m->requests[arena->class];
    ct_block_tree_insert(&arena->free, &nodes, block);
}

// Joins a block, which is in no tree, with one neighbour if that is as free as it is.
static void join_with(struct ct_allocator_model *m, uint32_t block, uint32_t other) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    struct ct_model_block *b = &m->blocks[block];
    if (other == CT_NO_BLOCK)
        return;
    const struct ct_model_block *o = &m->blocks[other];
    if (o->allocated || o->unmapped != b->unmapped)
        return;
    struct ct_model_arena *arena = &m->arenas[b->arena];
    ct_block_tree_erase(o->unmapped ? &arena->unmapped : &arena->free, &nodes, other);
    if (b->previous == other) {
        b->tree.address = o->tree.address;
        ct_model_block_link(m, block, o->previous, b->next);
    } else {
        ct_model_block_link(m, block, b->previous, o->next);
    }
    b->tree.size += o->tree.size;
    ct_model_block_drop(m, other);
}

void ct_model_block_join(struct ct_allocator_model *m, uint32_t block) {
    join_with(m, block, m->blocks[block].previous);
    join_with(m, block, m->blocks[block].next);
}

uint64_t ct_model_address_space(struct ct_allocator_model *m, uint64_t bytes, uint64_t alignment) {
    const uint64_t at = (m->next_address + alignment - 1) / alignment * alignment;
    m->next_address = at + bytes;
    m->exhausted |= m->next_address > CT_MODEL_ADDRESSES;
    return at;
}
