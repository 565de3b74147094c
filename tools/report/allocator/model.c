// SPDX-License-Identifier: Apache-2.0
#include "allocator/model.h"

#include <cutrace/format/assert.h>

#include "base/heap.h"

// ---- blocks -------------------------------------------------------------------------------------

static struct ct_tree_nodes nodes_of(const struct ct_allocator_model *m) {
    return (struct ct_tree_nodes){m->blocks, sizeof *m->blocks};
}

// A block that is in no list and no tree. Pointers to blocks become invalid.
static uint32_t new_block(struct ct_allocator_model *m, uint32_t arena, uint64_t address,
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

static void drop_block(struct ct_allocator_model *m, uint32_t block) {
    m->blocks[block].next = m->spare;
    m->spare = block;
}

static void link_block(struct ct_allocator_model *m, uint32_t block, uint32_t previous,
                       uint32_t next) {
    m->blocks[block].previous = previous;
    m->blocks[block].next = next;
    if (previous != CT_NO_BLOCK)
        m->blocks[previous].next = block;
    if (next != CT_NO_BLOCK)
        m->blocks[next].previous = block;
}

// Puts a block into its arena's tree of free blocks.
static void cache_block(struct ct_allocator_model *m, uint32_t block) {
    const struct ct_tree_nodes nodes = nodes_of(m);
    struct ct_model_block *b = &m->blocks[block];
    struct ct_model_arena *arena = &m->arenas[b->arena];
    b->allocated = 0;
    b->age_base = m->requests[arena->class];
    ct_block_tree_insert(&arena->free, &nodes, block);
}

// Joins a block, which is in no tree, with one neighbour if that is as free as it is.
static void join_with(struct ct_allocator_model *m, uint32_t block, uint32_t other) {
    const struct ct_tree_nodes nodes = nodes_of(m);
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
        link_block(m, block, o->previous, b->next);
    } else {
        link_block(m, block, b->previous, o->next);
    }
    b->tree.size += o->tree.size;
    drop_block(m, other);
}

// Joins a block, which is in no tree, with its neighbours, as far as they are as free as it is.
static void join_block(struct ct_allocator_model *m, uint32_t block) {
    join_with(m, block, m->blocks[block].previous);
    join_with(m, block, m->blocks[block].next);
}

// Addresses that no block of the model has.
static uint64_t address_space(struct ct_allocator_model *m, uint64_t bytes, uint64_t alignment) {
    const uint64_t at = (m->next_address + alignment - 1) / alignment * alignment;
    m->next_address = at + bytes;
    m->exhausted |= m->next_address > CT_MODEL_ADDRESSES;
    return at;
}

// ---- expandable segments ------------------------------------------------------------------------
// Each stream and class has one range of address space, into which memory is mapped in pages.

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

// Among the free blocks of an arena from `block` on, the one that PyTorch prefers.
static uint32_t prefer(const struct ct_allocator_model *m, uint32_t block) {
    const struct ct_tree_nodes nodes = nodes_of(m);
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
    return place && place < CT_MODEL_ADDRESSES / page ? place * page : address_space(m, size, page);
}

// A new range of address space: an unmapped block.
static uint32_t reserve(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const uint64_t page = page_of(m, arena);
    uint64_t size = round_up(m->device_total + m->device_total / 8, page);
    if (size < bytes)
        size = round_up(bytes, page);
    const uint32_t block = new_block(m, arena, choose_address(m, size, page), size);
    m->spaces++;
    const struct ct_tree_nodes nodes = nodes_of(m);
    m->blocks[block].unmapped = m->blocks[block].expandable = 1;
    ct_block_tree_insert(&m->arenas[arena].unmapped, &nodes, block);
    return block;
}

// The first place that has address space for a request: an unmapped block, or the free block just
// before it; or CT_NO_BLOCK.
static uint32_t find_place(const struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const struct ct_tree_nodes nodes = nodes_of(m);
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

int ct_allocator_model_has_place(const struct ct_allocator_model *m, uint32_t group,
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
    struct ct_tree_nodes nodes = nodes_of(m);
    ct_block_tree_erase(&m->arenas[arena].unmapped, &nodes, block);
    b->unmapped = 0;
    if (size < b->tree.size) {
        const uint32_t rest = new_block(m, arena, b->tree.address + size, b->tree.size - size);
        b = &m->blocks[block];
        nodes = nodes_of(m);
        b->tree.size = size;
        m->blocks[rest].unmapped = m->blocks[rest].expandable = 1;
        link_block(m, rest, block, b->next);
        ct_block_tree_insert(&m->arenas[arena].unmapped, &nodes, rest);
    }
    join_block(m, block);
    cache_block(m, block);
    m->reserved += size;
    m->driver_allocs += size / page;
    return 1;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

// Maps memory for a request. Returns a block that is large enough and in no tree, or CT_NO_BLOCK:
// the driver has not enough.
static uint32_t grow_space(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
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
    const struct ct_tree_nodes nodes = nodes_of(m);
    ct_block_tree_erase(&m->arenas[arena].free, &nodes, block);
    return block;
}

// Cuts a part off a free block that is in no tree, and caches it.
static void cut_off(struct ct_allocator_model *m, uint32_t block, uint64_t address, uint64_t size,
                    int before) {
    const uint32_t part = new_block(m, m->blocks[block].arena, address, size);
    m->blocks[part].expandable = 1;
    if (before)
        link_block(m, part, m->blocks[block].previous, block);
    else
        link_block(m, part, block, m->blocks[block].next);
    cache_block(m, part);
}

// Gives the whole pages of a free block back.
static void unmap(struct ct_allocator_model *m, uint32_t block) {
    const struct ct_tree_block whole = m->blocks[block].tree;
    const uint32_t arena = m->blocks[block].arena;
    const uint64_t page = page_of(m, arena);
    const uint64_t start = round_up(whole.address, page);
    const uint64_t end = (whole.address + whole.size) / page * page;
    if (start >= end)
        return;
    struct ct_tree_nodes nodes = nodes_of(m);
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
    join_block(m, block);
    if (m->blocks[block].previous == CT_NO_BLOCK && m->blocks[block].next == CT_NO_BLOCK) {
        drop_block(m, block); // nothing is mapped: PyTorch gives the address space back
        return;
    }
    nodes = nodes_of(m);
    ct_block_tree_insert(&m->arenas[arena].unmapped, &nodes, block);
}

// ---- segments of cudaMalloc ---------------------------------------------------------------------

static int is_whole_segment(const struct ct_model_block *b) {
    return b->previous == CT_NO_BLOCK && b->next == CT_NO_BLOCK && !b->expandable;
}

// Frees the segment that a free block fills.
static void free_segment(struct ct_allocator_model *m, uint32_t block) {
    const struct ct_tree_nodes nodes = nodes_of(m);
    const struct ct_model_block *b = &m->blocks[block];
    m->reserved -= b->tree.size;
    m->driver_frees++;
    ct_block_tree_erase(&m->arenas[b->arena].free, &nodes, block);
    drop_block(m, block);
}

static uint32_t new_segment(struct ct_allocator_model *m, uint32_t arena, uint64_t size) {
    if (size > m->room || m->reserved > m->room - size)
        return CT_NO_BLOCK;
    m->reserved += size;
    m->driver_allocs++;
    const uint64_t address = m->hint ? m->hint : address_space(m, size, CT_ALLOCATOR_ROUND_LARGE);
    return new_block(m, arena, address, size);
}

// Frees or unmaps what is cached in one arena.
static void release_arena(struct ct_allocator_model *m, struct ct_model_arena *arena) {
    const struct ct_tree_nodes nodes = nodes_of(m);
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
            unmap(m, list[i]);
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
    const struct ct_tree_nodes nodes = nodes_of(m);
    const uint64_t max_split = m->settings.max_split;
    uint32_t block = ct_block_tree_find(&m->arenas[arena].free, &nodes, bytes, 0);
    if (block == CT_NO_BLOCK)
        return block;
    if (m->blocks[block].expandable)
        block = prefer(m, block);
    const uint64_t size = m->blocks[block].tree.size;
    if (bytes < max_split ? size >= max_split : size - bytes >= m->settings.max_rounding)
        return CT_NO_BLOCK;
    return block;
}

static uint32_t take_free(struct ct_allocator_model *m, uint32_t arena, uint64_t bytes) {
    const struct ct_tree_nodes nodes = nodes_of(m);
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
    return m->settings.expandable ? grow_space(m, arena, bytes) : new_segment(m, arena, size);
}

// garbage_collection_threshold: frees whole large segments that were not used for long.
static void collect(struct ct_allocator_model *m) {
    const struct ct_tree_nodes nodes = nodes_of(m);
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
    const struct ct_tree_nodes nodes = nodes_of(m);
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
        new_block(m, m->blocks[block].arena, whole.address + bytes, whole.size - bytes);
    m->blocks[block].tree.size = bytes;
    m->blocks[rest].expandable = m->blocks[block].expandable;
    link_block(m, rest, block, m->blocks[block].next);
    cache_block(m, rest);
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
    join_block(m, block);
    cache_block(m, block);
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
    const struct ct_tree_nodes nodes = nodes_of(m);
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
