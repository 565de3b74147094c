// SPDX-License-Identifier: Apache-2.0
// Looks up the segment of each live block.
#include "layout/segment_blocks.h"

#include <cutrace/format/assert.h>

#include "base/heap.h"
#include "base/map.h"

// Returns the next block of a device that lies in a segment, and that segment in *segment; NULL at
// the end. *slot begins with 0 and is the iterator's position.
static const struct ct_object *next_block(const struct ct_replay *r, int device, uint32_t *slot,
                                          const struct ct_torch_region **segment) {
    while (*slot < ct_live_slot_count(&r->live)) {
        const struct ct_object *o = ct_live_object_at(&r->live, (*slot)++);
        if (!o || o->kind != CT_KIND_BLOCK || ct_device_to_index(o->device) != device)
            continue;
        *segment = ct_torch_pool_find_segment(&r->pool, o->key);
        if (*segment)
            return o;
    }
    return NULL;
}

// The earlier of two times, where 0 is no time yet.
static uint64_t older_of(uint64_t a, uint64_t b) {
    return !a || b < a ? b : a;
}

// ---- blocks that obstruct a request -------------------------------------------------------------
// Slides a window over the blocks of each segment that is large enough for the request.

static int compare_addresses(const void *a, const void *b) {
    const struct ct_object *x = *(const struct ct_object *const *)a;
    const struct ct_object *y = *(const struct ct_object *const *)b;
    return x->key < y->key ? -1 : x->key > y->key;
}

// Lists the blocks, by address, in segments of a class that are large enough.
static const struct ct_object **list_blocks(const struct ct_replay *r, int device,
                                            enum ct_torch_pool_class class, uint64_t request,
                                            size_t *count) {
    const struct ct_object **list =
        ct_heap_resize(NULL, r->live.of_kind[CT_KIND_BLOCK], sizeof *list);
    size_t n = 0;
    const struct ct_torch_region *in;
    uint32_t slot = 0;
    for (const struct ct_object *o; (o = next_block(r, device, &slot, &in));)
        if (ct_torch_pool_region_class(in) == class && in->bytes >= request)
            list[n++] = o;
    qsort(list, n, sizeof *list, compare_addresses);
    *count = n;
    return list;
}

// Counts a block and inserts it into the list of the largest ones.
static void add_obstructing_block(struct ct_obstruction *w, const struct ct_object *b) {
    unsigned at = w->largest_count;
    w->blocks++;
    w->block_bytes += b->bytes;
    w->oldest_ns = older_of(w->oldest_ns, b->t_ns);
    while (at && w->largest[at - 1].bytes < b->bytes)
        at--;
    if (at == CT_OBSTRUCTION_BLOCKS)
        return;
    w->largest_count += w->largest_count < CT_OBSTRUCTION_BLOCKS;
    memmove(w->largest + at + 1, w->largest + at, (w->largest_count - at - 1) * sizeof *w->largest);
    w->largest[at] =
        (struct ct_obstructing_block){b->key, b->bytes, b->t_ns, ct_object_event(b), b->stack};
}

// Tries the places of one segment from left to right; each begins after a block (or at the
// segment's start) and covers the fewest blocks that make it large enough. blocks[0] to blocks[n -
// 1] are all blocks of the segment.
static void try_segment(struct ct_obstruction *best, uint64_t *best_bytes,
                        const struct ct_torch_region *r, const struct ct_object *const *blocks,
                        size_t n, uint64_t request) {
    const uint64_t end = r->start + r->bytes;
    CT_ASSERT(n && blocks[0]->key >= r->start && blocks[n - 1]->key < end);
    uint64_t covered = 0; // bytes of blocks[from] to blocks[to - 1]
    for (size_t from = 0, to = 0; from <= n; from++) {
        const uint64_t left = from ? blocks[from - 1]->key + blocks[from - 1]->bytes : r->start;
        if (to < from)
            to = from;
        while (to < n && (blocks[to]->key < left || blocks[to]->key - left < request))
            covered += blocks[to++]->bytes;
        const uint64_t right = to < n ? blocks[to]->key : end;
        if (right > left && right - left >= request && covered < *best_bytes) {
            *best_bytes = covered;
            *best = (struct ct_obstruction){.known = 1, .start = left, .bytes = right - left};
            for (size_t i = from; i < to; i++)
                add_obstructing_block(best, blocks[i]);
        }
        if (from < n && to > from)
            covered -= blocks[from]->bytes;
    }
}

struct ct_obstruction ct_obstruction_find(const struct ct_replay *r, int device,
                                          enum ct_torch_pool_class class, uint64_t request) {
    struct ct_obstruction best = {0};
    uint64_t best_bytes = UINT64_MAX;
    size_t n;
    const struct ct_object **blocks = list_blocks(r, device, class, request, &n);
    for (size_t from = 0, to; from < n; from = to) {
        const struct ct_torch_region *in = ct_torch_pool_find_segment(&r->pool, blocks[from]->key);
        const uint64_t end = in->start + in->bytes;
        for (to = from + 1; to < n && blocks[to]->key < end; to++)
            ;
        try_segment(&best, &best_bytes, in, blocks + from, to - from, request);
    }
    free(blocks);
    return best;
}

// ---- segments that blocks hold open -------------------------------------------------------------
// Three passes over the blocks: the first finds the stacks, whose labels tell the call sites, the
// second the segments and the sites, the third counts each pair of these once.

enum { MAX_PAIR_BITS = 1 << 20 };

// Positions in the lists, + 1; of_stack: in the list of holders.
struct positions {
    struct ct_map of_segment, of_stack;
    size_t segment_room, holder_room;
};

static struct ct_held_segment *find_segment(struct ct_held_segments *h, struct positions *p,
                                            const struct ct_torch_region *r) {
    uint64_t *position = ct_map_add(&p->of_segment, r->start);
    if (!*position) {
        CT_HEAP_GROW(h->segments, h->segment_count, p->segment_room);
        h->segments[h->segment_count++] = (struct ct_held_segment){.start = r->start,
                                                                   .bytes = r->bytes,
                                                                   .free = r->free,
                                                                   .expandable = r->maps > 1,
                                                                   .exclusive = 1};
        *position = h->segment_count;
    }
    return &h->segments[*position - 1];
}

static struct ct_segment_holder *find_holder(struct ct_held_segments *h, struct positions *p,
                                             uint32_t stack) {
    return &h->holders[*ct_map_add(&p->of_stack, stack) - 1];
}

// The most bytes first: the order of the objects depends on how the state came about.
static int compare_stacks(const void *a, const void *b) {
    const struct ct_holding *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static struct ct_holding *list_stacks(const struct ct_replay *r, int device, size_t *n) {
    struct ct_map of_stack = {0};
    struct ct_holding *list = NULL;
    const struct ct_torch_region *in;
    size_t room = 0;
    uint32_t slot = 0;
    *n = 0;
    for (const struct ct_object *o; (o = next_block(r, device, &slot, &in));) {
        if (!in->free)
            continue;
        uint64_t *position = ct_map_add(&of_stack, o->stack);
        if (!*position) {
            CT_HEAP_GROW(list, *n, room);
            list[*n] = (struct ct_holding){.kind = CT_HOLDING_BLOCK, .stack = o->stack};
            *position = ++*n;
        }
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a position is in the list
        list[*position - 1].bytes += o->bytes;
        list[*position - 1].count++;
    }
    ct_map_free(&of_stack);
    if (*n)
        qsort(list, *n, sizeof *list, compare_stacks);
    return list;
}

// Makes a holder for each call site, and finds the holder of each stack.
static void find_sites(struct ct_held_segments *h, struct positions *p, struct ct_call_sites *sites,
                       const struct ct_holding *stacks, size_t n) {
    struct ct_site_groups groups = {0};
    ct_site_groups_refine(sites, stacks, n);
    for (size_t i = 0; i < n; i++) {
        struct ct_site_group *g =
            ct_site_groups_get(&groups, sites, CT_HOLDING_BLOCK, stacks[i].stack);
        uint64_t *holder = ct_map_add(&p->of_stack, g->stack); // of the site's first stack
        if (!*holder) {
            CT_HEAP_GROW(h->holders, h->holder_count, p->holder_room);
            h->holders[h->holder_count++] = (struct ct_segment_holder){.stack = g->stack};
            *holder = h->holder_count;
        }
        const uint64_t position = *holder;
        *ct_map_add(&p->of_stack, stacks[i].stack) = position;
    }
    ct_site_groups_free(&groups);
}

// Of blocks of one size the oldest one counts as the largest.
static int is_larger(const struct ct_held_segment *s, const struct ct_object *o) {
    if (!s->blocks || o->bytes != s->largest_block)
        return !s->blocks || o->bytes > s->largest_block;
    return ct_object_event(o) < s->largest_event;
}

static void add_block(struct ct_held_segments *h, struct positions *p,
                      const struct ct_torch_region *r, const struct ct_object *o) {
    struct ct_held_segment *s = find_segment(h, p, r);
    struct ct_segment_holder *holder = find_holder(h, p, o->stack);
    s->exclusive &= !s->blocks || find_holder(h, p, s->stack) == holder;
    if (is_larger(s, o)) {
        s->largest_block = o->bytes;
        s->largest_event = ct_object_event(o);
        s->stack = o->stack;
    }
    s->blocks++;
    s->block_bytes += o->bytes;
    s->oldest_ns = older_of(s->oldest_ns, o->t_ns);
    holder->blocks++;
    holder->block_bytes += o->bytes;
    holder->oldest_ns = older_of(holder->oldest_ns, o->t_ns);
}

// The pairs of a segment and a holder that have been seen: a bit for each possible pair, or a table
// of the seen ones where there are too many.
struct pairs {
    uint64_t *bits; // or NULL
    size_t holders;
    struct ct_map table;
};

static int add_pair(struct pairs *p, uint64_t segment, uint64_t holder) {
    const uint64_t pair = segment * p->holders + holder;
    uint64_t *word, bit = 1;
    if (p->bits) {
        word = &p->bits[pair / 64];
        bit = UINT64_C(1) << pair % 64;
    } else {
        word = ct_map_add(&p->table, pair);
    }
    const int is_new = !(*word & bit);
    *word |= bit;
    return is_new;
}

// Counts for each holder the segments that it has blocks in, each once.
static void count_segments(struct ct_held_segments *h, struct positions *p,
                           const struct ct_replay *r, int device) {
    struct pairs pairs = {.holders = h->holder_count};
    const struct ct_torch_region *in;
    uint32_t slot = 0;
    if (h->segment_count <= MAX_PAIR_BITS / (h->holder_count + 1))
        pairs.bits =
            ct_heap_alloc_zeroed(h->segment_count * h->holder_count / 64 + 1, sizeof *pairs.bits);
    for (const struct ct_object *o; (o = next_block(r, device, &slot, &in));) {
        if (!in->free)
            continue;
        const uint64_t holder = *ct_map_add(&p->of_stack, o->stack) - 1;
        if (!add_pair(&pairs, *ct_map_add(&p->of_segment, in->start) - 1, holder))
            continue;
        h->holders[holder].segments++;
        h->holders[holder].free_bytes += in->free;
    }
    free(pairs.bits);
    ct_map_free(&pairs.table);
}

static int compare_segments(const void *a, const void *b) {
    const struct ct_held_segment *x = a, *y = b;
    if (x->free != y->free)
        return x->free > y->free ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int compare_holders(const void *a, const void *b) {
    const struct ct_segment_holder *x = a, *y = b;
    if (x->free_bytes != y->free_bytes)
        return x->free_bytes > y->free_bytes ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

void ct_held_segments_find(struct ct_held_segments *h, struct ct_call_sites *sites,
                           const struct ct_replay *r, int device) {
    struct positions p = {0};
    const struct ct_torch_region *in;
    size_t n;
    struct ct_holding *stacks = list_stacks(r, device, &n);
    *h = (struct ct_held_segments){0};
    find_sites(h, &p, sites, stacks, n);
    free(stacks);
    uint32_t slot = 0;
    for (const struct ct_object *o; (o = next_block(r, device, &slot, &in));)
        if (in->free)
            add_block(h, &p, in, o);
    count_segments(h, &p, r, device);
    for (size_t i = 0; i < h->segment_count; i++)
        if (h->segments[i].exclusive)
            find_holder(h, &p, h->segments[i].stack)->exclusive_bytes += h->segments[i].bytes;
    if (h->segment_count)
        qsort(h->segments, h->segment_count, sizeof *h->segments, compare_segments);
    if (h->holder_count)
        qsort(h->holders, h->holder_count, sizeof *h->holders, compare_holders);
    ct_map_free(&p.of_segment);
    ct_map_free(&p.of_stack);
}

void ct_held_segments_free(struct ct_held_segments *h) {
    free(h->segments);
    free(h->holders);
    *h = (struct ct_held_segments){0};
}
