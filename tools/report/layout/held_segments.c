// SPDX-License-Identifier: Apache-2.0
// Three passes over the blocks: the first finds the stacks, whose labels tell the call sites, the
// second the segments and the sites, the third counts each pair of these once.
#include "layout/held_segments.h"

#include "base/heap.h"
#include "base/map.h"

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
    for (const struct ct_object *o; (o = ct_segment_blocks_next(r, device, &slot, &in));) {
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
    s->oldest_ns = ct_segment_blocks_older(s->oldest_ns, o->t_ns);
    holder->blocks++;
    holder->block_bytes += o->bytes;
    holder->oldest_ns = ct_segment_blocks_older(holder->oldest_ns, o->t_ns);
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
    for (const struct ct_object *o; (o = ct_segment_blocks_next(r, device, &slot, &in));) {
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
    for (const struct ct_object *o; (o = ct_segment_blocks_next(r, device, &slot, &in));)
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
