// SPDX-License-Identifier: Apache-2.0
#include "allocator/model.h"

#include "allocator/expandable_segments.h"
#include "allocator/model_blocks.h"
#include "base/heap.h"

// ---- segments of cudaMalloc ---------------------------------------------------------------------

static int is_whole_segment(const struct ct_model_block *b) {
    return b->previous == CT_NO_BLOCK && b->next == CT_NO_BLOCK && !b->expandable;
}

// Frees the segment that a free block fills.
static void free_segment(struct ct_allocator_model *m, uint32_t block) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    const struct ct_model_block *b = &m->blocks[block];
    m->reserved -= b->tree.size;
    m->driver_frees++;
    ct_block_tree_erase(&m->arenas[b->arena].free, &nodes, block);
    ct_model_block_drop(m, block);
}

static uint32_t new_segment(struct ct_allocator_model *m, uint32_t arena, uint64_t size) {
    if (size > m->room || m->reserved > m->room - size)
        return CT_NO_BLOCK;
    m->reserved += size;
    m->driver_allocs++;
    const uint64_t address =
        m->hint ? m->hint : ct_model_address_space(m, size, CT_ALLOCATOR_ROUND_LARGE);
    return ct_model_block_new(m, arena, address, size);
}

// Frees or unmaps what is cached in one arena.
static void release_arena(struct ct_allocator_model *m, struct ct_model_arena *arena) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    uint32_t *list = NULL;
    size_t count = 0, room = 0;
    for (uint32_t at = ct_block_tree_find(&arena->free, &nodes, 0, 0); at != CT_NO_BLOCK;
         at = ct_block_tree_next(&arena->free, &nodes, at))
        if (m->blocks[at].expandable || is_whole_segment(&m->blocks[at])) {
            CT_HEAP_GROW(list, count, room);
            list[count++] = at;
        }
    for (size_t i = 0; i < count; i++) {
        if (m->blocks[list[i]].expandable)
            ct_expandable_unmap(m, list[i]);
        else
            free_segment(m, list[i]);
    }
    free(list);
}

void ct_allocator_model_release_cached(struct ct_allocator_model *m) {
    for (uint32_t i = 0; i < m->arena_count; i++)
        release_arena(m, &m->arenas[i]);
}

// ---- requests -----------------------------------------------------------------------------------

static enum ct_model_class class_of(uint64_t bytes) {
    return bytes <= CT_ALLOCATOR_SMALL ? CT_MODEL_SMALL : CT_MODEL_LARGE;
}

static uint32_t find_arena(struct ct_allocator_model *m, uint32_t group,
                           enum ct_model_class class) {
    const uint32_t arena = group * CT_MODEL_CLASSES + class;
    while (m->arena_count <= arena) {
        CT_HEAP_GROW(m->arenas, m->arena_count, m->arena_room);
        m->arenas[m->arena_count] =
            (struct ct_model_arena){.free = {CT_NO_BLOCK, 0},
                                    .unmapped = {CT_NO_BLOCK, 1},
                                    .class = m->arena_count % CT_MODEL_CLASSES};
        m->arena_count++;
    }
    return arena;
}

// The smallest free block that PyTorch gives a request, or CT_NO_BLOCK.
static uint32_t find_free(const struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    const uint64_t max_split = m->settings.max_split;
    uint32_t block = ct_block_tree_find(&m->arenas[arena].free, &nodes, bytes, 0);
    if (block == CT_NO_BLOCK)
        return block;
    if (m->blocks[block].expandable)
        block = ct_expandable_prefer(m, block);
    const uint64_t size = m->blocks[block].tree.size;
    if (bytes < max_split ? size >= max_split : size - bytes >= m->settings.max_rounding)
        return CT_NO_BLOCK;
    return block;
}

static uint32_t take_free(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    const uint32_t block = find_free(m, arena, bytes);
    m->requests[m->arenas[arena].class]++;
    if (block != CT_NO_BLOCK)
        ct_block_tree_erase(&m->arenas[arena].free, &nodes, block);
    return block;
}

// Asks the driver for a segment.
static uint32_t grow(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const uint64_t size = ct_allocator_segment_size(&m->settings, bytes);
    if (size > m->allowed || m->reserved > m->allowed - size)
        return CT_NO_BLOCK;
    return m->settings.expandable ? ct_expandable_grow(m, arena, bytes)
                                  : new_segment(m, arena, size);
}

// garbage_collection_threshold: frees whole large segments that were not used for long.
static void collect(struct ct_allocator_model *m) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    const uint64_t threshold =
        (uint64_t)((double)m->settings.collect_ppm / 1e6 * (double)m->allowed);
    if (m->reserved <= threshold)
        return;
    const uint64_t target = m->reserved - threshold, now = m->requests[CT_MODEL_LARGE];
    uint64_t age = 0, count = 0, reclaimed = 0;
    for (int pass = 0, freed = 1; pass == 0 || (reclaimed < target && freed && count); pass++) {
        const double bound = count ? (double)age / (double)count : 0;
        freed = 0;
        for (uint32_t i = CT_MODEL_LARGE; i < m->arena_count; i += CT_MODEL_CLASSES) {
            const struct ct_block_tree *free = &m->arenas[i].free;
            uint32_t next, at = ct_block_tree_find(free, &nodes, 0, 0);
            for (; at != CT_NO_BLOCK; at = next) {
                const struct ct_model_block *b = &m->blocks[at];
                const uint64_t its = now - b->age_base;
                next = ct_block_tree_next(free, &nodes, at);
                if (!is_whole_segment(b))
                    continue;
                if (pass == 0) { // adds up the ages alone
                    age += its;
                    count++;
                } else if ((double)its >= bound) {
                    freed = 1;
                    reclaimed += b->tree.size;
                    age -= its;
                    count--;
                    free_segment(m, at);
                }
            }
        }
        freed |= pass == 0;
    }
}

// With max_split_size: frees unsplit blocks of the stream, the smallest that is large enough, else
// the largest ones. Returns whether they make up for the request.
static int release_available(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    const struct ct_block_tree *free = &m->arenas[arena].free;
    const uint64_t max_split = m->settings.max_split;
    const uint64_t wanted = bytes < max_split ? max_split : bytes;
    if (max_split == UINT64_MAX || m->settings.expandable)
        return 0;
    uint32_t block = ct_block_tree_find(free, &nodes, wanted, 0);
    if (block != CT_NO_BLOCK) {
        free_segment(m, block);
        return 1;
    }
    uint64_t released = 0;
    while (released < wanted &&
           (block = ct_block_tree_before(free, &nodes, UINT64_MAX, 0)) != CT_NO_BLOCK &&
           m->blocks[block].tree.size >= max_split && is_whole_segment(&m->blocks[block])) {
        released += m->blocks[block].tree.size;
        free_segment(m, block);
    }
    return released >= wanted;
}

static uint32_t find_block(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    uint32_t block = take_free(m, arena, bytes);
    if (block != CT_NO_BLOCK)
        return block;
    if (m->settings.collect_ppm && m->allowed != UINT64_MAX)
        collect(m);
    block = grow(m, arena, bytes);
    if (block == CT_NO_BLOCK && release_available(m, arena, bytes))
        block = grow(m, arena, bytes);
    if (block != CT_NO_BLOCK)
        return block;
    ct_allocator_model_release_cached(m);
    m->retries++;
    return grow(m, arena, bytes);
}

static int is_to_split(const struct ct_allocator_model *m, uint32_t block, uint64_t bytes) {
    const struct ct_model_block *b = &m->blocks[block];
    const uint64_t rest = b->tree.size - bytes;
    if (m->arenas[b->arena].class == CT_MODEL_SMALL || m->settings.expandable)
        return rest >= CT_ALLOCATOR_MIN_BLOCK;
    return bytes < m->settings.max_split && rest > CT_ALLOCATOR_SMALL;
}

// Leaves a block its first bytes, and caches the rest.
static void split(struct ct_allocator_model *m, uint32_t block, uint64_t bytes) {
    const struct ct_tree_block whole = m->blocks[block].tree;
    const uint32_t rest =
        ct_model_block_new(m, m->blocks[block].arena, whole.address + bytes, whole.size - bytes);
    m->blocks[block].tree.size = bytes;
    m->blocks[rest].expandable = m->blocks[block].expandable;
    ct_model_block_link(m, rest, block, m->blocks[block].next);
    ct_model_block_cache(m, rest);
}

static void note_peak(uint64_t *peak, uint64_t value) {
    if (*peak < value)
        *peak = value;
}

uint32_t ct_allocator_model_alloc(struct ct_allocator_model *m, uint32_t group, uint64_t bytes) {
    if (m->exhausted || bytes > CT_MODEL_MOST_BYTES)
        return CT_NO_BLOCK;
    bytes = ct_allocator_round(&m->settings, bytes);
    const uint32_t block = find_block(m, find_arena(m, group, class_of(bytes)), bytes);
    note_peak(&m->reserved_peak, m->reserved);
    if (block == CT_NO_BLOCK)
        return block;
    m->took_whole = !is_to_split(m, block, bytes);
    if (!m->took_whole)
        split(m, block, bytes);
    m->blocks[block].allocated = 1;
    m->arenas[m->blocks[block].arena].allocated++;
    m->allocated += m->blocks[block].tree.size;
    note_peak(&m->allocated_peak, m->allocated);
    return block;
}

void ct_allocator_model_free_block(struct ct_allocator_model *m, uint32_t block) {
    m->allocated -= m->blocks[block].tree.size;
    m->blocks[block].allocated = 0;
    m->arenas[m->blocks[block].arena].allocated--;
    ct_model_block_join(m, block);
    ct_model_block_cache(m, block);
}

int ct_allocator_model_is_empty(const struct ct_allocator_model *m, uint32_t group,
                                enum ct_model_class class) {
    const uint64_t arena = (uint64_t)group * CT_MODEL_CLASSES + class;
    if (arena >= m->arena_count)
        return 1;
    const struct ct_model_arena *a = &m->arenas[arena];
    return !a->allocated && a->free.root == CT_NO_BLOCK && a->unmapped.root == CT_NO_BLOCK;
}

uint64_t ct_allocator_model_largest_free(const struct ct_allocator_model *m) {
    const struct ct_tree_nodes nodes = ct_model_nodes(m);
    uint64_t largest = 0;
    for (uint32_t i = 0; i < m->arena_count; i++) {
        const uint32_t at = ct_block_tree_before(&m->arenas[i].free, &nodes, UINT64_MAX, 0);
        if (at != CT_NO_BLOCK)
            note_peak(&largest, m->blocks[at].tree.size);
    }
    return largest;
}

void ct_allocator_model_init(struct ct_allocator_model *m, const struct ct_allocator_settings *s,
                             uint64_t device_total) {
    *m = (struct ct_allocator_model){
        .settings = *s,
        .device_total = device_total < CT_MODEL_MOST_BYTES ? device_total : CT_MODEL_MOST_BYTES,
        .room = device_total,
        .allowed = UINT64_MAX,
        .spare = CT_NO_BLOCK,
        .next_address = UINT64_C(1) << 32};
}

void ct_allocator_model_copy(struct ct_allocator_model *to, const struct ct_allocator_model *m) {
    *to = *m;
    to->blocks = ct_heap_resize(NULL, m->block_room, sizeof *m->blocks);
    to->arenas = ct_heap_resize(NULL, m->arena_room, sizeof *m->arenas);
    if (m->block_count)
        memcpy(to->blocks, m->blocks, m->block_count * sizeof *m->blocks);
    if (m->arena_count)
        memcpy(to->arenas, m->arenas, m->arena_count * sizeof *m->arenas);
}

void ct_allocator_model_free(struct ct_allocator_model *m) {
    free(m->blocks);
    free(m->arenas);
}
