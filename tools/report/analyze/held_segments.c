// SPDX-License-Identifier: Apache-2.0
// Puts blocks to their segments, by segment, by stack and by address.
#include "analyze/held_segments.h"

#include "base/heap.h"
#include "base/map.h"

enum { MOST_BITS = 1 << 20 };

static uint64_t older(uint64_t a, uint64_t b) {
    return !a || b < a ? b : a;
}

// The next block of a device that lies in a segment, from slot *at on, and that segment. NULL: there is none.
static const struct ct_object *next_block(const struct ct_replay *r, int device, uint32_t *at,
                                          const struct ct_torch_region **in) {
    while (*at < ct_live_slot_count(&r->live)) {
        const struct ct_object *o = ct_live_object_at(&r->live, (*at)++);
        if (o && o->kind == CT_KIND_BLOCK && ct_device_to_index(o->device) == device &&
            (*in = ct_torch_pool_find_segment(&r->pool, o->key)))
            return o;
    }
    return NULL;
}

// ---- pinned segments ---------------------------------------------------------------------------------

struct maps {
    struct ct_map segment, stack; // place + 1
    size_t segment_room, stack_room;
};

static struct ct_held_segment *segment_of(struct ct_held_segments *p, struct maps *m,
                                            const struct ct_torch_region *r) {
    uint64_t *place = ct_map_add(&m->segment, r->start);
    if (!*place) {
        CT_HEAP_GROW(p->segments, p->segment_count, m->segment_room);
        p->segments[p->segment_count++] = (struct ct_held_segment){.start = r->start,
                                                                     .bytes = r->bytes,
                                                                     .free = r->free,
                                                                     .expandable = r->maps > 1,
                                                                     .alone = 1};
        *place = p->segment_count;
    }
    return &p->segments[*place - 1];
}

static struct ct_segment_holder *pinner_of(struct ct_held_segments *p, struct maps *m, uint32_t stack) {
    uint64_t *place = ct_map_add(&m->stack, stack);
    if (!*place) {
        CT_HEAP_GROW(p->pinners, p->pinner_count, m->stack_room);
        p->pinners[p->pinner_count++] = (struct ct_segment_holder){.stack = stack};
        *place = p->pinner_count;
    }
    return &p->pinners[*place - 1];
}

static void add(struct ct_held_segments *p, struct maps *m, const struct ct_torch_region *r,
                const struct ct_object *o) {
    struct ct_held_segment *s = segment_of(p, m, r);
    struct ct_segment_holder *by = pinner_of(p, m, o->stack);
    s->alone &= !s->blocks || s->stack == o->stack;
    if (o->bytes > s->largest_block || !s->blocks) {
        s->largest_block = o->bytes;
        s->stack = o->stack;
    }
    s->blocks++;
    s->block_bytes += o->bytes;
    s->oldest_ns = older(s->oldest_ns, o->t_ns);
    by->blocks++;
    by->block_bytes += o->bytes;
    by->oldest_ns = older(by->oldest_ns, o->t_ns);
}

// Which of the pairs of a segment and a stack have been seen: a bit for each pair there can be, or where these are too many,
// a table of those there are.
struct pairs {
    uint64_t *bits; // or NULL
    size_t stacks;
    struct ct_map seen;
};

static int is_new(struct pairs *p, uint64_t segment, uint64_t stack) {
    const uint64_t at = segment * p->stacks + stack, bit = UINT64_C(1) << at % 64;
    uint64_t *const word = p->bits ? &p->bits[at / 64] : ct_map_add(&p->seen, at);
    const int is = !(*word & (p->bits ? bit : 1));
    *word |= p->bits ? bit : 1;
    return is;
}

// Counts for each stack the segments that it has blocks in, each once.
static void count_segments(struct ct_held_segments *p, struct maps *m, const struct ct_replay *r,
                           int device) {
    struct pairs pairs = {.stacks = p->pinner_count};
    const struct ct_torch_region *in;
    uint32_t at = 0;
    if (p->segment_count <= MOST_BITS / (p->pinner_count + 1))
        pairs.bits = ct_heap_alloc_zeroed(p->segment_count * p->pinner_count / 64 + 1, sizeof *pairs.bits);
    for (const struct ct_object *o; (o = next_block(r, device, &at, &in));) {
        if (!in->free)
            continue;
        const uint64_t by = *ct_map_add(&m->stack, o->stack) - 1;
        if (!is_new(&pairs, *ct_map_add(&m->segment, in->start) - 1, by))
            continue;
        p->pinners[by].segments++;
        p->pinners[by].free_bytes += in->free;
    }
    free(pairs.bits);
    ct_map_free(&pairs.seen);
}

static int by_free(const void *a, const void *b) {
    const struct ct_held_segment *x = a, *y = b;
    if (x->free != y->free)
        return x->free > y->free ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int by_weight(const void *a, const void *b) {
    const struct ct_segment_holder *x = a, *y = b;
    if (x->free_bytes != y->free_bytes)
        return x->free_bytes > y->free_bytes ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

void ct_held_segments_find(struct ct_held_segments *p, const struct ct_replay *r, int device) {
    struct maps m = {0};
    const struct ct_torch_region *in;
    *p = (struct ct_held_segments){0};
    uint32_t at = 0;
    for (const struct ct_object *o; (o = next_block(r, device, &at, &in));)
        if (in->free)
            add(p, &m, in, o);
    count_segments(p, &m, r, device);
    for (size_t i = 0; i < p->segment_count; i++)
        if (p->segments[i].alone)
            pinner_of(p, &m, p->segments[i].stack)->alone_bytes += p->segments[i].bytes;
    if (p->segment_count)
        qsort(p->segments, p->segment_count, sizeof *p->segments, by_free);
    if (p->pinner_count)
        qsort(p->pinners, p->pinner_count, sizeof *p->pinners, by_weight);
    ct_map_free(&m.segment);
    ct_map_free(&m.stack);
}

void ct_held_segments_free(struct ct_held_segments *p) {
    free(p->segments);
    free(p->pinners);
    *p = (struct ct_held_segments){0};
}

// ---- in the way of a request ---------------------------------------------------------------------------

static int by_start(const void *a, const void *b) {
    const struct ct_object *x = *(const struct ct_object *const *)a;
    const struct ct_object *y = *(const struct ct_object *const *)b;
    return x->key < y->key ? -1 : x->key > y->key;
}

// The blocks in segments of a class that are large enough.
static const struct ct_object **blocks_of(const struct ct_replay *r, int device,
                                          enum ct_torch_pool_class class, uint64_t request,
                                          size_t *count) {
    const struct ct_object **list = ct_heap_resize(NULL, r->live.of_kind[CT_KIND_BLOCK], sizeof *list);
    size_t n = 0;
    const struct ct_torch_region *in;
    uint32_t at = 0;
    for (const struct ct_object *o; (o = next_block(r, device, &at, &in));)
        if (ct_torch_pool_region_class(in) == class && in->bytes >= request)
            list[n++] = o;
    qsort(list, n, sizeof *list, by_start);
    *count = n;
    return list;
}

static void name(struct ct_obstruction *w, const struct ct_object *b) {
    unsigned at = w->named_count;
    w->blocks++;
    w->block_bytes += b->bytes;
    w->oldest_ns = older(w->oldest_ns, b->t_ns);
    while (at && w->named[at - 1].bytes < b->bytes)
        at--;
    if (at == CT_OBSTRUCTION_BLOCKS)
        return;
    w->named_count += w->named_count < CT_OBSTRUCTION_BLOCKS;
    memmove(w->named + at + 1, w->named + at, (w->named_count - at - 1) * sizeof *w->named);
    w->named[at] = (struct ct_obstructing_block){b->key, b->bytes, b->t_ns, ct_object_event(b), b->stack};
}

// The places between blocks of one segment that would hold the request, from left to right: each with the fewest blocks
// that it takes. blocks[0] to blocks[n - 1] are all of the segment's.
static void try_segment(struct ct_obstruction *best, uint64_t *best_bytes, const struct ct_torch_region *r,
                        const struct ct_object *const *blocks, size_t n, uint64_t request) {
    const uint64_t end = r->start + r->bytes;
    uint64_t between = 0; // bytes of blocks[from] to blocks[to - 1]
    for (size_t from = 0, to = 0; from <= n; from++) {
        const uint64_t left = from ? blocks[from - 1]->key + blocks[from - 1]->bytes : r->start;
        if (to < from)
            to = from;
        while (to < n && (blocks[to]->key < left || blocks[to]->key - left < request))
            between += blocks[to++]->bytes;
        const uint64_t right = to < n ? blocks[to]->key : end;
        if (right > left && right - left >= request && between < *best_bytes) {
            *best_bytes = between;
            *best = (struct ct_obstruction){.known = 1, .start = left, .bytes = right - left};
            for (size_t i = from; i < to; i++)
                name(best, blocks[i]);
        }
        if (from < n && to > from)
            between -= blocks[from]->bytes;
    }
}

struct ct_obstruction ct_obstruction_find(const struct ct_replay *r, int device, enum ct_torch_pool_class class,
                                uint64_t request) {
    struct ct_obstruction best = {0};
    uint64_t best_bytes = UINT64_MAX;
    size_t n;
    const struct ct_object **blocks = blocks_of(r, device, class, request, &n);
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
