// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorded.h"

#include <math.h>

// ---- when PyTorch gave cached segments back -----------------------------------------------------

int ct_release_note(struct ct_release *f, const struct ct_replay *r, const struct ct_event *e,
                    int device, int failed) {
    if (f->open && f->thread == CT_GET(e, thread))
        f->grew |= e->op == CT_OP_ALLOC || e->op == CT_OP_CREATE;
    if ((e->op != CT_OP_FREE && e->op != CT_OP_UNMAP) || (CT_HAS(e, result) && e->result) ||
        !CT_HAS(e, ptr) || failed || f->open || !ct_recorded_region(r, e->ptr, device))
        return 0;
    *f = (struct ct_release){
        .open = 1, .thread = CT_GET(e, thread), .before = r->pool.device[device].own_bytes};
    return 1;
}

int ct_release_may_be_garbage(const struct ct_release *f, const struct ct_what_if *w) {
    return w->recorded.collect_ppm &&
           (double)f->before > (double)w->recorded.collect_ppm / 1e6 * (double)w->limit;
}

int ct_release_is_inside_request(const struct ct_release *f, const struct ct_what_if *w,
                                 const struct ct_event *e) {
    if (w->limit == UINT64_MAX || f->thread != CT_GET(e, thread) || e->op == CT_OP_BLOCK_FREE)
        return 0;
    if (e->op == CT_OP_BLOCK_OOM)
        return 1;
    if (!f->grew)
        return 0;
    return f->before + ct_allocator_segment_size(&w->recorded, e->bytes) > w->limit ||
           ct_release_may_be_garbage(f, w);
}

// ---- streams ------------------------------------------------------------------------------------

enum { MOST_SEGMENTS = 1 << 24 };

static uint32_t number_of(struct ct_recorded_streams *r, const struct ct_event *e) {
    const uint64_t stream = CT_GET(e, stream);
    if (stream == CT_STREAM_UNKNOWN)
        return CT_NO_RECORDED_STREAM;
    const uint64_t *known = ct_map_find(&r->number, stream);
    if (known)
        return (uint32_t)*known - 1;
    if (r->number.count == CT_RECORDED_STREAMS_MOST)
        return CT_NO_RECORDED_STREAM;
    const uint32_t number = (uint32_t)r->number.count;
    *ct_map_add(&r->number, stream) = number + 1;
    return number;
}

static uint64_t vote_key(uint32_t segment, uint32_t stream) {
    return (uint64_t)segment << 8 | stream;
}

uint64_t ct_recorded_streams_space_key(const struct ct_map *ends, uint64_t start) {
    const uint64_t *ended = ct_map_find(ends, start);
    return start | 1 | (ended ? *ended % 2048 : 0) << 1;
}

void ct_recorded_streams_note(struct ct_recorded_streams *r, uint64_t key,
                              const struct ct_event *e) {
    const uint64_t *known = ct_map_find(&r->by_key, key);
    const uint32_t stream = r->are_recorded ? number_of(r, e) : CT_NO_RECORDED_STREAM;
    if (stream == CT_NO_RECORDED_STREAM || (!known && r->count == MOST_SEGMENTS))
        return;
    if (!known) {
        CT_HEAP_GROW(r->segments, r->count, r->room);
        r->segments[r->count] = (struct ct_recorded_segment){0};
        *ct_map_add(&r->by_key, key) = r->count;
    }
    const uint32_t segment = known ? (uint32_t)*known : r->count++;
    struct ct_recorded_segment *s = &r->segments[segment];
    const uint64_t votes = ++*ct_map_add(&r->votes, vote_key(segment, stream));
    s->blocks++;
    if (votes > s->most) {
        s->most = (uint32_t)votes;
        s->stream = stream;
    }
}

void ct_recorded_streams_finish(struct ct_recorded_streams *r, double certain) {
    uint64_t blocks = 0, odd = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        blocks += r->segments[i].blocks;
        odd += r->segments[i].blocks - r->segments[i].most;
    }
    r->weight = certain;
    if (!odd)
        return;
    // The other streams are alike.
    const double wrong = (double)odd / (double)blocks, others = (double)r->number.count - 1;
    r->weight = fmax(log((1 - wrong) / wrong * others), 0);
}

uint32_t ct_recorded_streams_find(const struct ct_recorded_streams *r, uint64_t key) {
    const uint64_t *known = ct_map_find(&r->by_key, key);
    return known ? r->segments[*known].stream : CT_NO_RECORDED_STREAM;
}

double ct_recorded_streams_against(const struct ct_recorded_streams *r, uint64_t key,
                                   uint32_t stream) {
    const uint64_t *known = ct_map_find(&r->by_key, key);
    if (!known || stream == CT_NO_RECORDED_STREAM)
        return 0;
    const uint64_t *votes = ct_map_find(&r->votes, vote_key((uint32_t)*known, stream));
    return r->weight * (r->segments[*known].most - (votes ? (double)*votes : 0));
}

void ct_recorded_streams_free(struct ct_recorded_streams *r) {
    ct_map_free(&r->number);
    ct_map_free(&r->by_key);
    ct_map_free(&r->votes);
    free(r->segments);
}
