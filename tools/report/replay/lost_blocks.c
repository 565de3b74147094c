// SPDX-License-Identifier: Apache-2.0
// Sets of addresses. A reservation that has had memory tells outside and asleep apart.
#include "replay/lost_blocks.h"

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
