// SPDX-License-Identifier: Apache-2.0
// Which memory of the driver is a PyTorch segment: memory that has held a block.
//
// PyTorch uses a segment from its start on. It extends a segment by mappings at multiples of 2 MiB,
// by no more than the current block needs. So the memory that holds a block begins where the
// segment's first block does, or at a multiple of 2 MiB inside the block. This is checked once for
// each page of 2 MiB.
#ifndef CUTRACE_LIVE_SEGMENTS_H
#define CUTRACE_LIVE_SEGMENTS_H

#include <cutrace/model/objects.h>

enum {
    CT_SEGMENT_PAGE_DONE = 1,      // memory that begins at the page's start, if any, is a segment
    CT_SEGMENT_PAGE_UNALIGNED = 2, // memory begins inside the page, after its start
};

// The flags of the page of an address; NULL if there are none.
CT_HOT uint8_t *ct_live_segment_page(const struct ct_live *l, uint64_t address) {
    const uint64_t number = address / CT_SEGMENT_LEAF_BYTES;
    for (uint64_t i = number; i < number + CT_SEGMENT_TRIES; i++) {
        const struct ct_live_segment_leaf *leaf = &l->leaf[i % CT_SEGMENT_LEAVES];
        if (!leaf->page)
            return NULL;
        if (leaf->number == number)
            return &leaf->page[address % CT_SEGMENT_LEAF_BYTES / CT_SEGMENT_PAGE];
    }
    return NULL;
}

// ct_live_segment_page that creates the leaf if it is missing; NULL without memory or a free leaf.
CT_COLD uint8_t *ct_live_segment_add_page(struct ct_live *l, uint64_t address) {
    const uint64_t number = address / CT_SEGMENT_LEAF_BYTES,
                   bytes = CT_SEGMENT_LEAF_BYTES / CT_SEGMENT_PAGE;
    uint8_t *page = ct_live_segment_page(l, address);
    for (uint64_t i = number; i < number + CT_SEGMENT_TRIES && !page; i++) {
        struct ct_live_segment_leaf *leaf = &l->leaf[i % CT_SEGMENT_LEAVES];
        if (leaf->page)
            continue;
        if (!(leaf->page = (uint8_t *)l->resize(l->user, NULL, 0, bytes)))
            return NULL;
        memset(leaf->page, 0, bytes);
        leaf->number = number;
        page = &leaf->page[address % CT_SEGMENT_LEAF_BYTES / CT_SEGMENT_PAGE];
    }
    return page;
}

// Called when memory begins at the object's address: it may be no segment yet.
CT_COLD void ct_live_segment_note_start(struct ct_live *l, const struct ct_object *o) {
    uint8_t *page = ct_live_segment_page(l, o->key);
    if (page)
        *page &= (uint8_t)~CT_SEGMENT_PAGE_DONE;
    if (o->key % CT_SEGMENT_PAGE && ct_object_is_on_device(l, o) &&
        (page = ct_live_segment_add_page(l, o->key)))
        *page |= CT_SEGMENT_PAGE_UNALIGNED;
}

// The first block: from now on the starts of memory are tracked.
CT_COLD void ct_live_segment_begin(struct ct_live *l) {
    l->has_blocks = 1;
    for (uint32_t i = 0; i < l->slots; i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (o && (o->kind == CT_KIND_ADDRESS || o->kind == CT_KIND_MAPPING))
            ct_live_segment_note_start(l, o);
    }
}

// Memory is a segment. A mapping that fills its reservation may sleep: pages of expandable segments
// do not, because PyTorch itself gives them back.
CT_COLD void ct_live_segment_set(struct ct_live *l, struct ct_object *memory, int device) {
    memory->segment = 1;
    if (memory->kind != CT_KIND_MAPPING)
        return;
    memory->device = (int8_t)device;
    struct ct_object *r = ct_live_find(l, CT_KIND_RESERVED, memory->key);
    if (r && r->bytes == memory->bytes) {
        r->holds_segment = 1;
        r->device = (int8_t)device;
    }
}

// Marks the memory that begins at `address` as a segment, if it reaches up to the block's start.
// Returns 0 if some memory that begins there is not a segment.
static inline int ct_live_segment_mark_at(struct ct_live *l, uint64_t address, uint64_t start,
                                          int device) {
    static const uint8_t kinds[] = {CT_KIND_ADDRESS, CT_KIND_MAPPING};
    int all = 1;
    for (unsigned i = 0; i < sizeof kinds; i++) {
        struct ct_object *o = ct_live_find(l, kinds[i], address);
        if (o && !ct_object_is_on_device(l, o))
            o = NULL; // PyTorch's segments are device memory
        if (o && !o->segment && (address >= start || o->bytes > start - address))
            ct_live_segment_set(l, o, device);
        all &= !o || o->segment;
    }
    return all;
}

// Slow path of ct_live_segment_mark: a page that is not done, or a block across pages.
CT_COLD void ct_live_segment_mark_slow(struct ct_live *l, uint64_t start, uint64_t bytes,
                                       int device) {
    uint64_t at = start / CT_SEGMENT_PAGE * CT_SEGMENT_PAGE;
    const uint64_t pages = (start - at + bytes - 1) / CT_SEGMENT_PAGE + 1;
    if (!l->has_blocks)
        ct_live_segment_begin(l);
    if (at != start)
        (void)ct_live_segment_mark_at(l, start, start, device);
    // A damaged trace may claim larger blocks than any process has: they are cut.
    for (uint64_t n = 0; n < pages && n < CT_SEGMENT_MAX_PAGES; n++, at += CT_SEGMENT_PAGE) {
        uint8_t *page = ct_live_segment_add_page(l, at);
        if (page && *page & CT_SEGMENT_PAGE_DONE)
            continue;
        if (ct_live_segment_mark_at(l, at, start, device) && page)
            *page |= CT_SEGMENT_PAGE_DONE;
    }
}

// Marks the memory that holds a block of the device as a segment.
CT_HOT void ct_live_segment_mark(struct ct_live *l, uint64_t start, uint64_t bytes, int device) {
    const uint8_t *page = ct_live_segment_page(l, start);
    if (!page || *page != CT_SEGMENT_PAGE_DONE || start % CT_SEGMENT_PAGE + bytes > CT_SEGMENT_PAGE)
        ct_live_segment_mark_slow(l, start, bytes, device);
}

#endif
