// SPDX-License-Identifier: Apache-2.0
// Slides a window over the blocks of each segment that is large enough for the request.
#include "layout/obstruction.h"

#include <cutrace/format/assert.h>

#include "base/heap.h"

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
    for (const struct ct_object *o; (o = ct_segment_blocks_next(r, device, &slot, &in));)
        if (ct_torch_pool_region_class(in) == class && in->bytes >= request)
            list[n++] = o;
    qsort(list, n, sizeof *list, compare_addresses);
    *count = n;
    return list;
}

// Counts a block and inserts it into the list of the largest ones.
static void add_block(struct ct_obstruction *w, const struct ct_object *b) {
    unsigned at = w->largest_count;
    w->blocks++;
    w->block_bytes += b->bytes;
    w->oldest_ns = ct_segment_blocks_older(w->oldest_ns, b->t_ns);
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
                add_block(best, blocks[i]);
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
