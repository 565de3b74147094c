// SPDX-License-Identifier: Apache-2.0
#include "analyze/segment_streams.h"

// A second's work: a server that fails a thousand times has a thousand segments each time.
#define MOST_LOOKED_AT (UINT64_C(1) << 28)

void ct_segment_streams_init(struct ct_segment_streams *s, const struct ct_trace *t) {
    *s = (struct ct_segment_streams){
        .are_recorded = ct_definitions_info(&t->definitions, "torch.block_streams") != NULL};
}

static uint64_t key_of_space(uint64_t start) {
    return start | 1; // (it is a multiple of pages)
}

static uint64_t key_of(const struct ct_torch_region *r) {
    return r->maps && r->reservation ? key_of_space(r->reservation) : r->event << 1;
}

static uint64_t stream_of(const struct ct_event *e) {
    return CT_HAS(e, stream) ? e->stream : 0;
}

static void note_block(struct ct_segment_streams *s, const struct ct_replay *r,
                       const struct ct_event *e) {
    const struct ct_torch_region *in = ct_torch_pool_find_segment(&r->pool, e->ptr);
    if (!in || stream_of(e) == CT_STREAM_UNKNOWN)
        return;
    uint64_t *stream = ct_map_add(&s->of, key_of(in));
    s->disagree |= *stream && *stream != stream_of(e) + 1;
    *stream = stream_of(e) + 1;
}

void ct_segment_streams_note(struct ct_segment_streams *s, const struct ct_replay *r,
                             const struct ct_event *e) {
    if (!s->are_recorded || !CT_HAS(e, ptr))
        return;
    if (e->op == CT_OP_BLOCK_ALLOC)
        note_block(s, r, e);
    uint64_t *ended = e->op == CT_OP_UNRESERVE ? ct_map_find(&s->of, key_of_space(e->ptr)) : NULL;
    if (ended)
        *ended = 0;
}

static void add_free_blocks(struct ct_free_blocks *f, const struct ct_torch_pool *p,
                            const struct ct_torch_region *r) {
    const struct ct_range_tree *tree = &p->device[r->device].free[ct_torch_pool_region_class(r)];
    const uint64_t end = r->start + r->bytes;
    struct ct_tree_range at;
    for (uint64_t from = r->start; ct_range_tree_find(tree, from, &at) && at.start < end;
         from = at.start + at.bytes) {
        f->ranges++;
        f->bytes += at.bytes;
        f->largest = at.bytes > f->largest ? at.bytes : f->largest;
    }
}

struct ct_other_streams ct_segment_streams_find_others(struct ct_segment_streams *s,
                                                       const struct ct_replay *r,
                                                       const struct ct_event *e, int device,
                                                       enum ct_torch_pool_class class) {
    const struct ct_torch_pool *p = &r->pool;
    const uint64_t stream = stream_of(e);
    struct ct_other_streams others = {.known = s->are_recorded && stream != CT_STREAM_UNKNOWN &&
                                               s->looked_at < MOST_LOOKED_AT};
    s->looked_at += others.known ? p->region_count : 0;
    for (uint32_t i = 0; others.known && i < p->region_count; i++) {
        const struct ct_torch_region *in = &p->regions[i];
        if (!in->bytes || !in->held || !in->free || in->device != device ||
            ct_torch_pool_region_class(in) != class)
            continue;
        const uint64_t *of = ct_map_find(&s->of, key_of(in));
        if (!of || !*of)
            others.unknown += in->free;
        else if (*of != stream + 1)
            add_free_blocks(&others.free, p, in);
    }
    s->looked_at += others.free.ranges;
    return others;
}

void ct_segment_streams_free(struct ct_segment_streams *s) {
    ct_map_free(&s->of);
}
