// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses in sorted leaves of a few kilobytes, so that adding one moves little memory however many there are.
#include "replay/range_list.h"

#include "base/heap.h"

enum { LEAF_SPANS = 102 };

struct ct_range_list_leaf {
    uint32_t count;
    struct ct_listed_range span[LEAF_SPANS];
};

struct ct_range_list_entry {
    uint64_t first; // where its first span begins
    struct ct_range_list_leaf *spans;
};

// The last leaf that begins at an address or before it; 0 if there is none.
static uint32_t leaf_of(const struct ct_range_list *s, uint64_t address) {
    uint32_t low = 0, high = s->leaves;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->leaf[middle].first <= address)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The first span of a leaf that ends behind an address; the number of them if there is none.
static uint32_t place_of(const struct ct_range_list_leaf *leaf, uint64_t address) {
    uint32_t low = 0, high = leaf->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (ct_listed_range_end(&leaf->span[middle]) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct ct_range_list_position ct_range_list_find(const struct ct_range_list *s, uint64_t address) {
    struct ct_range_list_position at = {0, 0};
    if (!s->leaves)
        return at;
    at.leaf = leaf_of(s, address);
    at.at = place_of(s->leaf[at.leaf].spans, address);
    if (at.at == s->leaf[at.leaf].spans->count)
        at = (struct ct_range_list_position){at.leaf + 1, 0};
    return at;
}

struct ct_listed_range *ct_range_list_get(const struct ct_range_list *s, struct ct_range_list_position at) {
    return at.leaf < s->leaves ? &s->leaf[at.leaf].spans->span[at.at] : NULL;
}

struct ct_listed_range *ct_range_list_previous(const struct ct_range_list *s, struct ct_range_list_position at) {
    if (at.at)
        return &s->leaf[at.leaf].spans->span[at.at - 1];
    return at.leaf ? &s->leaf[at.leaf - 1].spans->span[s->leaf[at.leaf - 1].spans->count - 1]
                   : NULL;
}

struct ct_range_list_position ct_range_list_next(const struct ct_range_list *s, struct ct_range_list_position at) {
    return at.at + 1 < s->leaf[at.leaf].spans->count ? (struct ct_range_list_position){at.leaf, at.at + 1}
                                                     : (struct ct_range_list_position){at.leaf + 1, 0};
}

struct ct_listed_range *ct_range_list_find_overlap(const struct ct_range_list *s, uint64_t start, uint64_t bytes) {
    struct ct_listed_range *span = ct_range_list_get(s, ct_range_list_find(s, start));
    return span && span->start < start + bytes ? span : NULL;
}

struct ct_listed_range *ct_range_list_find_exact(const struct ct_range_list *s, uint64_t start) {
    struct ct_listed_range *span = ct_range_list_get(s, ct_range_list_find(s, start));
    return span && span->start == start ? span : NULL;
}

static void new_leaf(struct ct_range_list *s, uint32_t at) {
    if (s->leaves == s->room) {
        s->room = s->room ? s->room * 2 : 64;
        s->leaf = ct_heap_resize(s->leaf, s->room, sizeof *s->leaf);
    }
    memmove(s->leaf + at + 1, s->leaf + at, (s->leaves - at) * sizeof *s->leaf);
    s->leaf[at] = (struct ct_range_list_entry){0, ct_heap_alloc_zeroed(1, sizeof(struct ct_range_list_leaf))};
    s->leaves++;
}

// Moves the spans from `keep` on into a leaf of their own; none of them where spans are added at the end.
static void split(struct ct_range_list *s, uint32_t at, uint32_t keep) {
    new_leaf(s, at + 1);
    struct ct_range_list_leaf *first = s->leaf[at].spans, *second = s->leaf[at + 1].spans;
    second->count = first->count - keep;
    memcpy(second->span, first->span + keep, second->count * sizeof *first->span);
    first->count = keep;
    s->leaf[at + 1].first = second->span[0].start; // (or, still empty, 0: the caller adds one)
}

void ct_range_list_add(struct ct_range_list *s, const struct ct_listed_range *span) {
    if (!s->leaves)
        new_leaf(s, 0);
    uint32_t leaf = leaf_of(s, span->start), at = place_of(s->leaf[leaf].spans, span->start);
    if (s->leaf[leaf].spans->count == LEAF_SPANS) {
        const uint32_t keep = at == LEAF_SPANS ? at : LEAF_SPANS / 2;
        split(s, leaf, keep);
        if (at > keep || keep == LEAF_SPANS) {
            leaf++;
            at -= keep;
        }
    }
    struct ct_range_list_leaf *to = s->leaf[leaf].spans;
    memmove(to->span + at + 1, to->span + at, (to->count - at) * sizeof *to->span);
    to->span[at] = *span;
    to->count++;
    s->leaf[leaf].first = to->span[0].start;
}

void ct_range_list_remove(struct ct_range_list *s, struct ct_range_list_position at) {
    struct ct_range_list_leaf *leaf = s->leaf[at.leaf].spans;
    leaf->count--;
    memmove(leaf->span + at.at, leaf->span + at.at + 1, (leaf->count - at.at) * sizeof *leaf->span);
    if (leaf->count) {
        s->leaf[at.leaf].first = leaf->span[0].start;
        return;
    }
    free(leaf);
    s->leaves--;
    memmove(s->leaf + at.leaf, s->leaf + at.leaf + 1, (s->leaves - at.leaf) * sizeof *s->leaf);
}

void ct_range_list_free(struct ct_range_list *s) {
    for (uint32_t i = 0; i < s->leaves; i++)
        free(s->leaf[i].spans);
    free(s->leaf);
    *s = (struct ct_range_list){0};
}
