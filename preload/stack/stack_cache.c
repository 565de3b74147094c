// SPDX-License-Identifier: Apache-2.0
// The cache of a thread's stacks: making shapes and memos. See stack_cache.h.
#include "stack/stack_cache.h"

#include <string.h>

#include <cutrace/format/assert.h>

// Shapes in one chain. A frame whose size differs from call to call makes a shape for each size.
#define MOST_OF_A_START 16u

void ct_stack_cache_clear(struct ct_stack_cache *c) {
    memset(c->seen, 0, sizeof c->seen);
    memset(c->start, 0, sizeof c->start);
    memset(c->memo, 0, sizeof c->memo);
    c->used = 1;
}

int ct_stack_cache_is_second(struct ct_stack_cache *c, uint32_t id) {
    uint32_t *const seen = &c->seen[id * 0x9E3779B1u >> 22];
    if (*seen == id)
        return 1;
    *seen = id;
    return 0;
}

static int is_shape_of(struct ct_stack_shape *s, const struct ct_walk *w,
                       const struct ct_walk_frame *f) {
    return ct_stack_shape_starts_at(s, f) && s->frames == w->n && s->inputs == w->inputs &&
           !memcmp(s->input, w->input, w->inputs * sizeof *w->input) &&
           !memcmp(ct_stack_shape_offsets(s), w->offset, w->n * sizeof *w->offset);
}

static uint32_t make_shape(struct ct_stack_cache *c, const struct ct_walk *w,
                           const struct ct_walk_frame *f) {
    const size_t offsets =
        (w->n + CT_STACK_HASH_STEP - 1) / CT_STACK_HASH_STEP * CT_STACK_HASH_STEP;
    const uint32_t words = (uint32_t)((sizeof(struct ct_stack_shape) +
                                       w->inputs * sizeof *w->input + offsets * sizeof *w->offset) /
                                      8);
    if (c->used + words > CT_STACK_CACHE_BYTES / 8)
        ct_stack_cache_clear(c);
    CT_ASSERT(c->used && c->used + words <= CT_STACK_CACHE_BYTES / 8);
    const uint32_t place = c->used;
    uint32_t *const start = ct_stack_cache_start(c, f->pc, f->base);
    unsigned others = 0;
    for (uint32_t at = *start; at; at = ct_stack_cache_shape(c, at)->next)
        others++;
    if (others >= MOST_OF_A_START)
        *start = 0; // nothing leads to the old ones any more, until all are cleared
    struct ct_stack_shape *s = ct_stack_cache_shape(c, place);
    c->used += words;
    *s = (struct ct_stack_shape){*start, (uint16_t)w->n, (uint16_t)w->inputs, f->base, f->pc};
    memcpy(s->input, w->input, w->inputs * sizeof *w->input);
    memset(ct_stack_shape_offsets(s), 0, offsets * sizeof *w->offset);
    memcpy(ct_stack_shape_offsets(s), w->offset, w->n * sizeof *w->offset);
    *start = place;
    return place;
}

void ct_stack_cache_add(struct ct_stack_cache *c, const struct ct_walk *w,
                        const struct ct_walk_frame *f, uint32_t id) {
    CT_ASSERT(id && w->inputs < CT_WALK_INPUTS); // R2
    uint32_t place = *ct_stack_cache_start(c, f->pc, f->base);
    while (place && !is_shape_of(ct_stack_cache_shape(c, place), w, f))
        place = ct_stack_cache_shape(c, place)->next;
    if (!place)
        place = make_shape(c, w, f);
    const uint64_t hash = ct_stack_shape_hash(ct_stack_cache_shape(c, place));
    struct ct_stack_memo *m = ct_stack_cache_memo(c, hash, place);
    m[1] = m[0];
    m[0] = (struct ct_stack_memo){hash, place, id};
}
