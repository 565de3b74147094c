// SPDX-License-Identifier: Apache-2.0
// Sorted leaves of a few kilobytes and a sorted directory of them, so that adding a range moves
// little memory however many there are.
#include "replay/range_list.h"

#include <cutrace/format/assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

enum { LEAF_RANGES = 102 };

struct ct_range_list_leaf {
    uint32_t count;
    struct ct_listed_range range[LEAF_RANGES];
};

struct ct_range_list_entry {
    uint64_t first; // start of its first range
    struct ct_range_list_leaf *ranges;
};

// The last leaf that begins at or before an address; 0 if all begin after it.
static uint32_t find_leaf(const struct ct_range_list *s, uint64_t address) {
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

// The index of the first range of a leaf that ends after an address; `count` if there is none.
static uint32_t find_in_leaf(const struct ct_range_list_leaf *leaf, uint64_t address) {
    uint32_t low = 0, high = leaf->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (ct_listed_range_end(&leaf->range[middle]) <= address)
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
    at.leaf = find_leaf(s, address);
    at.at = find_in_leaf(s->leaf[at.leaf].ranges, address);
    if (at.at == s->leaf[at.leaf].ranges->count)
        at = (struct ct_range_list_position){at.leaf + 1, 0};
    return at;
}

struct ct_listed_range *ct_range_list_get(const struct ct_range_list *s,
                                          struct ct_range_list_position at) {
    return at.leaf < s->leaves ? &s->leaf[at.leaf].ranges->range[at.at] : NULL;
}

struct ct_listed_range *ct_range_list_previous(const struct ct_range_list *s,
                                               struct ct_range_list_position at) {
    if (at.at)
        return &s->leaf[at.leaf].ranges->range[at.at - 1];
    if (!at.leaf)
        return NULL;
    struct ct_range_list_leaf *before = s->leaf[at.leaf - 1].ranges;
    return &before->range[before->count - 1];
}

struct ct_range_list_position ct_range_list_next(const struct ct_range_list *s,
                                                 struct ct_range_list_position at) {
    if (at.at + 1 < s->leaf[at.leaf].ranges->count)
        return (struct ct_range_list_position){at.leaf, at.at + 1};
    return (struct ct_range_list_position){at.leaf + 1, 0};
}

struct ct_listed_range *ct_range_list_find_overlap(const struct ct_range_list *s, uint64_t start,
                                                   uint64_t bytes) {
    struct ct_listed_range *range = ct_range_list_get(s, ct_range_list_find(s, start));
    return range && range->start < start + bytes ? range : NULL;
}

struct ct_listed_range *ct_range_list_find_exact(const struct ct_range_list *s, uint64_t start) {
    struct ct_listed_range *range = ct_range_list_get(s, ct_range_list_find(s, start));
    return range && range->start == start ? range : NULL;
}

static void insert_leaf(struct ct_range_list *s, uint32_t at) {
    if (s->leaves == s->room) {
        s->room = s->room ? s->room * 2 : 64;
        s->leaf = ct_heap_resize(s->leaf, s->room, sizeof *s->leaf);
    }
    memmove(s->leaf + at + 1, s->leaf + at, (s->leaves - at) * sizeof *s->leaf);
    s->leaf[at] =
        (struct ct_range_list_entry){0, ct_heap_alloc_zeroed(1, sizeof(struct ct_range_list_leaf))};
    s->leaves++;
}

// Moves the ranges from `keep` on to a new leaf. `keep` is their number where ranges are added in
// ascending order: that fills leaves.
static void split_leaf(struct ct_range_list *s, uint32_t at, uint32_t keep) {
    insert_leaf(s, at + 1);
    struct ct_range_list_leaf *first = s->leaf[at].ranges, *second = s->leaf[at + 1].ranges;
    second->count = first->count - keep;
    memcpy(second->range, first->range + keep, second->count * sizeof *first->range);
    first->count = keep;
    s->leaf[at + 1].first =
        second->range[0].start; // (of a new leaf without ranges: ct_range_list_add sets it)
}

void ct_range_list_add(struct ct_range_list *s, const struct ct_listed_range *range) {
    if (!s->leaves)
        insert_leaf(s, 0);
    uint32_t leaf = find_leaf(s, range->start),
             at = find_in_leaf(s->leaf[leaf].ranges, range->start);
    if (s->leaf[leaf].ranges->count == LEAF_RANGES) {
        const uint32_t keep = at == LEAF_RANGES ? at : LEAF_RANGES / 2;
        split_leaf(s, leaf, keep);
        if (at > keep || keep == LEAF_RANGES) {
            leaf++;
            at -= keep;
        }
    }
    struct ct_range_list_leaf *to = s->leaf[leaf].ranges;
    memmove(to->range + at + 1, to->range + at, (to->count - at) * sizeof *to->range);
    to->range[at] = *range;
    to->count++;
    CT_ASSERT(range->bytes);
    CT_ASSERT(!at || ct_listed_range_end(&to->range[at - 1]) <= range->start);
    CT_ASSERT(at + 1 == to->count || ct_listed_range_end(range) <= to->range[at + 1].start);
    s->leaf[leaf].first = to->range[0].start;
}

void ct_range_list_remove(struct ct_range_list *s, struct ct_range_list_position at) {
    struct ct_range_list_leaf *leaf = s->leaf[at.leaf].ranges;
    leaf->count--;
    memmove(leaf->range + at.at, leaf->range + at.at + 1,
            (leaf->count - at.at) * sizeof *leaf->range);
    if (leaf->count) {
        s->leaf[at.leaf].first = leaf->range[0].start;
        return;
    }
    free(leaf);
    s->leaves--;
    memmove(s->leaf + at.leaf, s->leaf + at.leaf + 1, (s->leaves - at.leaf) * sizeof *s->leaf);
}

void ct_range_list_free(struct ct_range_list *s) {
    for (uint32_t i = 0; i < s->leaves; i++)
        free(s->leaf[i].ranges);
    free(s->leaf);
    *s = (struct ct_range_list){0};
}
