// SPDX-License-Identifier: Apache-2.0
#include "allocator/expandable_segments.h"

#include <cutrace/format/assert.h>

#include "allocator/model_blocks.h"

static uint64_t page_of(const struct ct_allocator_model *m, uint32_t arena) {
    return m->arenas[arena].class == CT_MODEL_SMALL ? CT_ALLOCATOR_SMALL_SEGMENT
                                                    : m->settings.large_segment;
}

static uint64_t round_up(uint64_t bytes, uint64_t to) {
    return (bytes + to - 1) / to * to;
}

static int is_allocatable(const struct ct_allocator_model *m, uint32_t block) {
    return block != CT_NO_BLOCK && !m->blocks[block].allocated;
}

// What a free block can grow to.
static uint64_t size_with_unmapped(const struct ct_allocator_model *m, uint32_t block) {
    const struct ct_model_block *b = &m->blocks[block];
    const uint32_t next = b->next;
    return b->tree.size +
           (next != CT_NO_BLOCK && m->blocks[next].unmapped ? m->blocks[next].tree.size : 0);
}

uint32_t ct_expandable_prefer(const struct ct_allocator_model *m, uint32_t block) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    const struct ct_block_tree *free = &m->arenas[m->blocks[block].arena].free;
    uint32_t next = ct_block_tree_next(free, &nodes, block);
    while (next != CT_NO_BLOCK && size_with_unmapped(m, next) < size_with_unmapped(m, block)) {
        block = next;
        next = ct_block_tree_next(free, &nodes, block);
    }
    return block;
}

static int has_address_space(const struct ct_allocator_model *m, uint32_t block, uint64_t bytes) {
    uint64_t sum = 0;
    for (; sum < bytes && is_allocatable(m, block); block = m->blocks[block].next)
        sum += m->blocks[block].tree.size;
    return sum >= bytes;
}

// A multiple of pages. A stream's address spaces are searched in the order of their addresses: in
// that of the driver's, where these are known.
static uint64_t choose_address(struct ct_allocator_model *m, uint64_t size, uint64_t page) {
    const uint64_t place = m->space_hint >> 20; // two spaces are further apart
    return place && place < CT_MODEL_ADDRESSES / page ? place * page
                                                      : ct_model_address_space(m, size, page);
}

// A new range of address space: an unmapped block.
static uint32_t reserve(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const uint64_t page = page_of(m, arena);
    uint64_t size = round_up(m->device_total + m->device_total / 8, page);
    if (size < bytes)
        size = round_up(bytes, page);
    const uint32_t block = ct_model_block_new(m, arena, choose_address(m, size, page), size);
    m->spaces++;
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    m->blocks[block].unmapped = m->blocks[block].expandable = 1;
    ct_block_tree_insert(&m->arenas[arena].unmapped, &nodes, block);
    return block;
}

// The first place that has address space for a request: an unmapped block, or the free block just
// before it; or CT_NO_BLOCK.
static uint32_t find_place(const struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    const struct ct_block_tree *unmapped = &m->arenas[arena].unmapped;
    for (uint32_t at = ct_block_tree_find(unmapped, &nodes, 0, 0); at != CT_NO_BLOCK;
         at = ct_block_tree_next(unmapped, &nodes, at)) {
        const uint32_t before = m->blocks[at].previous;
        const uint32_t place = is_allocatable(m, before) ? before : at;
        if (has_address_space(m, place, bytes))
            return place;
    }
    return CT_NO_BLOCK;
}

int ct_expandable_has_place(const struct ct_allocator_model *m, uint32_t group,
                            enum ct_model_class class, uint64_t bytes) {
    const uint64_t arena = (uint64_t)group * CT_MODEL_CLASSES + class;
    return arena < m->arena_count && find_place(m, (uint32_t)arena, bytes) != CT_NO_BLOCK;
}

// Maps the first pages of an unmapped block, and joins them with a free block before and after
// them. Returns 0 if the driver has not enough for all of them.
static int map(struct ct_allocator_model *m, uint32_t block, uint64_t bytes) {
    struct ct_model_block *b = &m->blocks[block];
    const uint32_t arena = b->arena;
    const uint64_t page = page_of(m, arena), size = round_up(bytes, page);
    CT_ASSERT(b->unmapped && size <= b->tree.size);
    if (size > m->room || m->reserved > m->room - size)
        return 0;
    struct ct_tree_nodes nodes = ct_model_nodes(m);
    ct_block_tree_erase(&m->arenas[arena].unmapped, &nodes, block);
    b->unmapped = 0;
    if (size < b->tree.size) {
        const uint32_t rest =
            ct_model_block_new(m, arena, b->tree.address + size, b->tree.size - size);
        b = &m->blocks[block];
        nodes = ct_model_nodes(m);
        b->tree.size = size;
        m->blocks[rest].unmapped = m->blocks[rest].expandable = 1;
        ct_model_block_link(m, rest, block, b->next);
        ct_block_tree_insert(&m->arenas[arena].unmapped, &nodes, rest);
    }
    ct_model_block_join(m, block);
    ct_model_block_cache(m, block);
    m->reserved += size;
    m->driver_allocs += size / page;
    return 1;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

uint32_t ct_expandable_grow(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    uint32_t block = find_place(m, arena, bytes);
    if (block == CT_NO_BLOCK)
        block = reserve(m, arena, bytes);
    if (m->blocks[block].unmapped && !map(m, block, smaller(m->blocks[block].tree.size, bytes)))
        return CT_NO_BLOCK;
    while (m->blocks[block].tree.size < bytes) {
        const uint32_t next = m->blocks[block].next;
        const uint64_t missing = bytes - m->blocks[block].tree.size;
        if (!map(m, next, smaller(missing, m->blocks[next].tree.size)))
            return CT_NO_BLOCK;
        block = next; // which the free block before it has joined
    }
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    ct_block_tree_erase(&m->arenas[arena].free, &nodes, block);
    return block;
}

// Cuts a part off a free block that is in no tree, and caches it.
static void cut_off(struct ct_allocator_model *m, uint32_t block, uint64_t address, uint64_t size,
                    int before) {
    const uint32_t part = ct_model_block_new(m, m->blocks[block].arena, address, size);
    m->blocks[part].expandable = 1;
    if (before)
        ct_model_block_link(m, part, m->blocks[block].previous, block);
    else
        ct_model_block_link(m, part, block, m->blocks[block].next);
    ct_model_block_cache(m, part);
}

void ct_expandable_unmap(struct ct_allocator_model *m, uint32_t block) {
    const struct ct_tree_block whole = m->blocks[block].tree;
    const uint32_t arena = m->blocks[block].arena;
    const uint64_t page = page_of(m, arena);
    const uint64_t start = round_up(whole.address, page);
    const uint64_t end = (whole.address + whole.size) / page * page;
    if (start >= end)
        return;
    struct ct_tree_nodes nodes = ct_model_nodes(m);
    ct_block_tree_erase(&m->arenas[arena].free, &nodes, block);
    if (start > whole.address)
        cut_off(m, block, whole.address, start - whole.address, 1);
    if (whole.address + whole.size > end)
        cut_off(m, block, end, whole.address + whole.size - end, 0);
    m->blocks[block].tree.address = start;
    m->blocks[block].tree.size = end - start;
    m->blocks[block].unmapped = 1;
    m->reserved -= end - start;
    m->driver_frees += (end - start) / page;
    ct_model_block_join(m, block);
    if (m->blocks[block].previous == CT_NO_BLOCK && m->blocks[block].next == CT_NO_BLOCK) {
        ct_model_block_drop(m, block); // nothing is mapped: PyTorch gives the address space back
        return;
    }
    nodes = ct_model_nodes(m);
    ct_block_tree_insert(&m->arenas[arena].unmapped, &nodes, block);
}
