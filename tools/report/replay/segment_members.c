// SPDX-License-Identifier: Apache-2.0
// Remembers the answer in the objects: in the `segment` bit of a block and of a VMM object. That an
// allocation is a segment is known from its region (torch_pool.c).
#include "replay/segment_members.h"

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
