// SPDX-License-Identifier: Apache-2.0
// Disjoint address ranges in ascending order, with the event that created each. A pointer to a
// range is valid until one is added.
#ifndef CT_RANGE_LIST_H
#define CT_RANGE_LIST_H

#include <stddef.h>

#include "replay/range_tree.h"

struct ct_listed_range {
    uint64_t start, bytes;
    uint64_t event, t_ns; // that created it
    uint32_t stack;
    int8_t device; // or CT_NO_DEVICE
    uint8_t what;  // the caller's own
};

static inline uint64_t ct_listed_range_end(const struct ct_listed_range *range) {
    return range->start + range->bytes;
}

struct ct_range_list {
    struct ct_range_tree order; // marked with the range's place
    struct ct_listed_range *list;
    uint32_t count, room;
    uint32_t spare; // the first place that is free again, + 1; its `stack` is the next one
};

// The first range that ends after an address, or NULL.
struct ct_listed_range *ct_range_list_find(const struct ct_range_list *s, uint64_t address);
// The range after one, or NULL.
static inline struct ct_listed_range *ct_range_list_next(const struct ct_range_list *s,
                                                         const struct ct_listed_range *range) {
    return ct_range_list_find(s, ct_listed_range_end(range));
}
// The first range that overlaps [start, start + bytes), or NULL.
static inline struct ct_listed_range *ct_range_list_find_overlap(const struct ct_range_list *s,
                                                                 uint64_t start, uint64_t bytes) {
    struct ct_listed_range *range = ct_range_list_find(s, start);
    return range && range->start < start + bytes ? range : NULL;
}
// The range that begins at an address, or NULL.
static inline struct ct_listed_range *ct_range_list_find_exact(const struct ct_range_list *s,
                                                               uint64_t start) {
    struct ct_listed_range *range = ct_range_list_find(s, start);
    return range && range->start == start ? range : NULL;
}
// Adds a range of at least one byte that overlaps no other.
void ct_range_list_add(struct ct_range_list *s, const struct ct_listed_range *range);
void ct_range_list_remove(struct ct_range_list *s, struct ct_listed_range *range);
void ct_range_list_free(struct ct_range_list *s);

#endif
