// SPDX-License-Identifier: Apache-2.0
// Entries of a history have the size that was asked for, and blocks the size that they have. So a
// block that was freed after the moment comes back with its size rounded to PyTorch's step: what
// PyTorch did not split off (less than 1 MiB) counts as free then.
#include "snapshot/snapshot.h"

#include <stdlib.h>

#include "base/heap.h"
#include "replay/range_list.h"

#define MIB (UINT64_C(1) << 20)

struct moment {
    const struct ct_snapshot *s;
    struct ct_snapshot_pool *pool;
    struct ct_range_list segments, blocks; // `what` of a block: enum ct_snapshot_state
    uint64_t block_bytes;                  // of all blocks
    struct ct_snapshot_pool_key *keys;     // of segments, whose `event` is the position
    size_t key_count, key_room;
    struct ct_map stacks;    // by address: the stack that allocated what lies there last, + 1
    struct ct_map positions; // by stack: its place in the pool's holders, + 1
};

// As PyTorch rounds what the program asks for.
static uint64_t round_request(uint64_t bytes) {
    return bytes > UINT64_MAX - 512 ? bytes : bytes < 512 ? 512 : (bytes + 511) / 512 * 512;
}

uint64_t ct_snapshot_segment_bytes(uint64_t bytes) {
    if (bytes <= MIB)
        return 2 * MIB;
    if (bytes < 10 * MIB)
        return 20 * MIB;
    return bytes > UINT64_MAX - 2 * MIB ? bytes : (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

// ---- ranges -------------------------------------------------------------------------------------

// Adds a range, unless it is empty, wraps, or overlaps another one. Returns whether it did.
static int add(struct ct_range_list *list, const struct ct_listed_range *r) {
    if (!r->bytes || r->start > UINT64_MAX - r->bytes ||
        ct_range_list_find_overlap(list, r->start, r->bytes))
        return 0;
    ct_range_list_add(list, r);
    return 1;
}

// Takes [start, start + bytes) out of all ranges.
static void cut(struct ct_range_list *list, uint64_t start, uint64_t bytes) {
    struct ct_listed_range *found;
    if (!bytes || start > UINT64_MAX - bytes)
        return;
    while ((found = ct_range_list_find_overlap(list, start, bytes))) {
        const struct ct_listed_range whole = *found;
        struct ct_listed_range before = whole, after = whole;
        ct_range_list_remove(list, found);
        before.bytes = whole.start < start ? start - whole.start : 0;
        after.start = start + bytes;
        after.bytes = ct_listed_range_end(&whole) > after.start
                          ? ct_listed_range_end(&whole) - after.start
                          : 0;
        (void)add(list, &before);
        (void)add(list, &after);
    }
}

static void add_segment(struct moment *m, uint64_t start, uint64_t bytes,
                        const struct ct_snapshot_pool_key *key, int is_expandable) {
    CT_HEAP_GROW(m->keys, m->key_count, m->key_room);
    m->keys[m->key_count] = *key;
    (void)add(&m->segments, &(struct ct_listed_range){.start = start,
                                                      .bytes = bytes,
                                                      .event = m->key_count++,
                                                      .what = is_expandable != 0});
}

static void add_block(struct moment *m, const struct ct_listed_range *block) {
    if (add(&m->blocks, block))
        m->block_bytes += block->bytes;
}

// ---- the state at the end -----------------------------------------------------------------------

static void add_end(struct moment *m) {
    const struct ct_snapshot *s = m->s;
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct ct_snapshot_segment *g = &s->segments[i];
        if (g->device != m->pool->device)
            continue;
        add_segment(m, g->address, g->bytes, &g->key, g->is_expandable);
        for (size_t k = 0; k < g->block_count; k++) {
            const struct ct_snapshot_block *b = &s->blocks[g->first_block + k];
            if (b->state != CT_SNAPSHOT_INACTIVE)
                add_block(m, &(struct ct_listed_range){.start = b->address,
                                                       .bytes = b->bytes,
                                                       .event = b->requested,
                                                       .stack = b->stack,
                                                       .what = (uint8_t)b->state});
        }
    }
}

// ---- undoing ------------------------------------------------------------------------------------

// Which stack allocated what lies at an address, by the entries before the moment.
static void read_stacks(struct moment *m, const struct ct_snapshot_history *h, size_t before) {
    for (size_t i = 0; i < before; i++)
        if (h->list[i].action == CT_SNAPSHOT_ALLOC)
            *ct_map_add(&m->stacks, h->list[i].address) = h->list[i].stack + UINT64_C(1);
}

static void put_back(struct moment *m, const struct ct_snapshot_entry *e) {
    const uint64_t *stack = ct_map_find(&m->stacks, e->address);
    add_block(m, &(struct ct_listed_range){.start = e->address,
                                           .bytes = round_request(e->bytes),
                                           .event = e->bytes,
                                           .stack = stack ? (uint32_t)(*stack - 1) : 0,
                                           .what = CT_SNAPSHOT_PENDING});
    m->pool->is_exact = 0;
}

static void undo(struct moment *m, const struct ct_snapshot_entry *e) {
    struct ct_listed_range *block = ct_range_list_find_exact(&m->blocks, e->address);
    const struct ct_snapshot_pool_key key = {
        .stream = e->stream, .pool = {e->pool[0], e->pool[1]}, .is_small = e->bytes <= 2 * MIB};
    switch (e->action) {
    case CT_SNAPSHOT_ALLOC:
        if (block) {
            m->block_bytes -= block->bytes;
            ct_range_list_remove(&m->blocks, block);
        }
        break;
    case CT_SNAPSHOT_FREE_COMPLETED:
        put_back(m, e);
        break;
    case CT_SNAPSHOT_FREE_REQUESTED:
        if (block)
            block->what = CT_SNAPSHOT_ALLOCATED;
        break;
    case CT_SNAPSHOT_SEGMENT_ALLOC:
    case CT_SNAPSHOT_SEGMENT_MAP:
        cut(&m->segments, e->address, e->bytes);
        break;
    case CT_SNAPSHOT_SEGMENT_FREE:
    case CT_SNAPSHOT_SEGMENT_UNMAP:
        add_segment(m, e->address, e->bytes, &key, e->action == CT_SNAPSHOT_SEGMENT_UNMAP);
        break;
    default:
        break;
    }
}

// ---- figures ------------------------------------------------------------------------------------

static struct ct_snapshot_holder *get_holder(struct moment *m, uint32_t stack) {
    struct ct_snapshot_pool *p = m->pool;
    uint64_t *position = ct_map_add(&m->positions, stack);
    if (!*position) {
        CT_HEAP_GROW(p->holders, p->holder_count, p->holder_room);
        p->holders[p->holder_count] = (struct ct_snapshot_holder){.stack = stack};
        *position = ++p->holder_count;
    }
    return &p->holders[*position - 1];
}

static void count_block(struct moment *m, const struct ct_listed_range *b) {
    struct ct_snapshot_holder *h = get_holder(m, b->stack);
    h->bytes += b->bytes;
    h->count++;
    if (b->what == CT_SNAPSHOT_PENDING)
        m->pool->pending += b->bytes;
    else {
        m->pool->allocated += b->bytes;
        m->pool->requested += b->event;
    }
}

static void add_free(struct ct_snapshot_free *f, uint64_t bytes) {
    f->bytes += bytes;
    f->ranges += bytes != 0;
    f->largest = bytes > f->largest ? bytes : f->largest;
}

static void add_gap(struct ct_snapshot_pool *p, uint64_t from, uint64_t to, int usable) {
    const uint64_t bytes = to > from ? to - from : 0;
    add_free(&p->free, bytes);
    if (usable)
        add_free(&p->usable, bytes);
}

static int is_usable(const struct ct_snapshot_pool_key *a, const struct ct_snapshot_pool_key *b) {
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a segment has a key
    return a->stream == b->stream && a->is_small == b->is_small && a->pool[0] == b->pool[0] &&
           a->pool[1] == b->pool[1];
}

// Counts the blocks and gaps from `start` to `end`. Returns the free bytes.
static uint64_t count_range(struct moment *m, uint64_t start, uint64_t end, int usable) {
    struct ct_snapshot_pool *p = m->pool;
    const uint64_t before = p->free.bytes;
    uint64_t up_to = start;
    for (const struct ct_listed_range *b = ct_range_list_find(&m->blocks, start);
         b && b->start < end; b = ct_range_list_next(&m->blocks, b)) {
        add_gap(p, up_to, b->start, usable);
        count_block(m, b);
        up_to = ct_listed_range_end(b);
    }
    add_gap(p, up_to, end, usable);
    return p->free.bytes - before;
}

// A call site with a block in a segment holds open what is free in it.
static void count_held(struct moment *m, uint64_t start, uint64_t end, uint64_t free) {
    for (const struct ct_listed_range *b = ct_range_list_find(&m->blocks, start);
         b && b->start < end; b = ct_range_list_next(&m->blocks, b)) {
        struct ct_snapshot_holder *h = get_holder(m, b->stack);
        if (h->segment != m->pool->segments)
            h->held_open += free;
        h->segment = m->pool->segments;
    }
}

// Neighbours that are parts of one expandable segment are counted as one.
static void count(struct moment *m, const struct ct_snapshot_pool_key *key) {
    const struct ct_listed_range *g = ct_range_list_find(&m->segments, 0), *next;
    for (; g; g = next) {
        const struct ct_snapshot_pool_key *own = &m->keys[g->event];
        uint64_t end = ct_listed_range_end(g);
        for (next = ct_range_list_next(&m->segments, g);
             next && g->what && next->what && next->start == end &&
             is_usable(own, &m->keys[next->event]);
             next = ct_range_list_next(&m->segments, next))
            end = ct_listed_range_end(next);
        m->pool->segments++;
        m->pool->reserved += end - g->start;
        const uint64_t free = count_range(m, g->start, end, key && is_usable(own, key));
        count_held(m, g->start, end, free);
    }
}

static int by_bytes(const void *a, const void *b) {
    const struct ct_snapshot_holder *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void free_moment(struct moment *m) {
    ct_range_list_free(&m->segments);
    ct_range_list_free(&m->blocks);
    ct_map_free(&m->stacks);
    ct_map_free(&m->positions);
    free(m->keys);
}

void ct_snapshot_pool_find(struct ct_snapshot_pool *p, const struct ct_snapshot *s, int device,
                           size_t before, const struct ct_snapshot_pool_key *key) {
    *p = (struct ct_snapshot_pool){.device = device, .is_exact = 1};
    struct moment m = {.s = s, .pool = p};
    const struct ct_snapshot_history *h = &s->history[device];
    add_end(&m);
    if (before < h->count)
        read_stacks(&m, h, before);
    for (size_t i = h->count; i > before; i--, p->undone++)
        undo(&m, &h->list[i - 1]);
    count(&m, key);
    if (p->holder_count)
        qsort(p->holders, p->holder_count, sizeof *p->holders, by_bytes);
    free_moment(&m);
}

size_t ct_snapshot_find_peak(const struct ct_snapshot *s, int device, uint64_t *bytes) {
    const struct ct_snapshot_history *h = &s->history[device];
    struct ct_snapshot_pool pool = {.device = device};
    struct moment m = {.s = s, .pool = &pool};
    size_t peak = h->count;
    add_end(&m);
    *bytes = m.block_bytes;
    for (size_t i = h->count; i > 0; i--) {
        undo(&m, &h->list[i - 1]);
        if (m.block_bytes < *bytes)
            continue;
        *bytes = m.block_bytes;
        peak = i - 1;
    }
    free_moment(&m);
    return peak;
}

void ct_snapshot_pool_free(struct ct_snapshot_pool *p) {
    free(p->holders);
    *p = (struct ct_snapshot_pool){0};
}
