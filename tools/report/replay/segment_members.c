// SPDX-License-Identifier: Apache-2.0
// Remembers the answer in the objects: in the `segment` bit of a block and of a VMM object. That an
// allocation is a segment is known from its region (torch_pool.c).
#include "replay/segment_members.h"

// ---- members of segments ------------------------------------------------------------------------

void ct_segment_members_set_block(const struct ct_segment_members *m, struct ct_object *block,
                                  enum ct_block_place place) {
    const int inside = place != CT_BLOCK_OUTSIDE;
    if (block->segment == inside)
        return;
    if (inside)
        block->resumed = place == CT_BLOCK_RESUMED;
    block->segment = inside;
    if (m->watch.block_changed)
        m->watch.block_changed(m->watch.user, block, inside ? 1 : -1);
}

static void report_segment(const struct ct_segment_members *m, const struct ct_object *o,
                           int sign) {
    if (m->watch.segment_changed)
        m->watch.segment_changed(m->watch.user, o, sign);
}

void ct_segment_members_add_allocation(const struct ct_segment_members *m, uint64_t address) {
    const struct ct_object *o = ct_live_find(m->live, CT_KIND_ADDRESS, address);
    if (o)
        report_segment(m, o, +1);
}

void ct_segment_members_drop_allocation(const struct ct_segment_members *m,
                                        const struct ct_object *o) {
    struct ct_object *handle =
        o->kind == CT_KIND_HANDLE ? ct_live_find(m->live, CT_KIND_HANDLE, o->key) : NULL;
    if (handle)
        handle->segment = 0;
    report_segment(m, o, -1);
}

void ct_segment_members_add_mappings(const struct ct_segment_members *m, uint64_t start,
                                     uint64_t end) {
    const struct ct_object *mapping;
    for (uint64_t at = start; at < end; at += mapping->bytes) {
        mapping = ct_live_find(m->live, CT_KIND_MAPPING, at);
        if (!mapping || !mapping->bytes)
            return;
        struct ct_object *handle =
            ct_live_find(m->live, CT_KIND_HANDLE, ct_live_traits(m->live, mapping)->link);
        if (!handle || handle->segment)
            continue;
        handle->segment = 1;
        report_segment(m, handle, +1);
        ct_live_traits(m->live, handle)->was_segment = 1;
    }
}

void ct_segment_members_drop_mapping(const struct ct_segment_members *m, uint64_t handle) {
    const struct ct_object *o = ct_live_find(m->live, CT_KIND_HANDLE, handle);
    if (o && o->segment && ct_live_traits(m->live, o)->maps <= 1)
        ct_segment_members_drop_allocation(m, o);
}

void ct_segment_members_move_blocks(
    const struct ct_segment_members *m, uint64_t start, uint64_t end,
    enum ct_block_place (*find_place)(void *user, const struct ct_object *block), void *user) {
    uint64_t at = start;
    struct ct_object *o;
    for (; at < end && (o = ct_live_find(m->live, CT_KIND_BLOCK, at)) && o->bytes; at += o->bytes)
        ct_segment_members_set_block(m, o, find_place ? find_place(user, o) : CT_BLOCK_OUTSIDE);
    if (at >= end)
        return;
    // The rest is of a block that begins before the range, or overlaps another: look at all blocks.
    struct ct_live_walk w = ct_live_walk_kind(m->live, CT_KIND_BLOCK);
    while ((o = ct_live_walk_next(m->live, &w)))
        if (o->key < end && (o->key >= at || at - o->key < o->bytes))
            ct_segment_members_set_block(m, o, find_place ? find_place(user, o) : CT_BLOCK_OUTSIDE);
}

// ---- blocks in no memory of the driver ----------------------------------------------------------
// Sets of addresses. A reservation that has had memory tells outside and asleep apart.

// Whether what lies at an address sleeps. *end is moved to where the answer may change.
static int is_asleep(const struct ct_range_tree *reserved, const struct ct_live *l,
                     uint64_t address, uint64_t *end) {
    struct ct_tree_range found;
    if (!ct_range_tree_find(reserved, address, &found))
        return 0;
    const struct ct_object *r = ct_live_find(l, CT_KIND_RESERVED, found.start);
    const int inside = found.start <= address;
    const uint64_t limit = inside ? found.start + found.bytes : found.start;
    if (limit < *end)
        *end = limit;
    return inside && r && r->segment;
}

void ct_lost_blocks_add(struct ct_lost_blocks *b, const struct ct_range_tree *reserved,
                        const struct ct_live *l, uint64_t start, uint64_t end) {
    for (uint64_t to; start < end; start = to) {
        to = end;
        struct ct_range_tree *s = is_asleep(reserved, l, start, &to) ? &b->asleep : &b->outside;
        (void)ct_range_tree_add(s, start, to, 0, UINT64_MAX);
    }
}

void ct_lost_blocks_remove(struct ct_lost_blocks *b, uint64_t start, uint64_t end) {
    (void)ct_range_tree_remove(&b->outside, start, end);
    (void)ct_range_tree_remove(&b->asleep, start, end);
}

static int find_in(const struct ct_range_tree *s, uint64_t *start, uint64_t *end) {
    struct ct_tree_range found;
    if (*start >= *end || !s->count)
        return 0;
    if (!ct_range_tree_find(s, *start, &found) || found.start >= *end)
        return 0;
    const uint64_t limit = found.start + found.bytes;
    *start = found.start > *start ? found.start : *start;
    *end = limit < *end ? limit : *end;
    return 1;
}

int ct_lost_blocks_find(const struct ct_lost_blocks *b, uint64_t *start, uint64_t *end) {
    return find_in(&b->outside, start, end) || find_in(&b->asleep, start, end);
}

void ct_lost_blocks_end_sleep(struct ct_lost_blocks *b, uint64_t start, uint64_t end) {
    uint64_t from = start, to = end;
    while (find_in(&b->asleep, &from, &to)) {
        (void)ct_range_tree_remove(&b->asleep, from, to);
        (void)ct_range_tree_add(&b->outside, from, to, 0, UINT64_MAX);
        from = to;
        to = end;
    }
}

void ct_lost_blocks_clear(struct ct_lost_blocks *b) {
    ct_range_tree_clear(&b->outside);
    ct_range_tree_clear(&b->asleep);
}
