// SPDX-License-Identifier: Apache-2.0
// Disjoint address ranges in ascending order, with the event that created each.
#ifndef CT_RANGE_LIST_H
#define CT_RANGE_LIST_H

#include <stdint.h>

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
    struct ct_range_list_entry *leaf; // directory of the leaves
    uint32_t leaves, room;
};

// A position in the order, valid until a range is added or removed.
struct ct_range_list_position {
    uint32_t leaf, at;
};

// The position of the first range that ends after an address.
struct ct_range_list_position ct_range_list_find(const struct ct_range_list *s, uint64_t address);
// The range at a position, NULL after the last one.
struct ct_listed_range *ct_range_list_get(const struct ct_range_list *s,
                                          struct ct_range_list_position at);
// The range before a position, NULL if there is none.
struct ct_listed_range *ct_range_list_previous(const struct ct_range_list *s,
                                               struct ct_range_list_position at);
struct ct_range_list_position ct_range_list_next(const struct ct_range_list *s,
                                                 struct ct_range_list_position at);
// The first range that overlaps [start, start + bytes), or NULL.
struct ct_listed_range *ct_range_list_find_overlap(const struct ct_range_list *s, uint64_t start,
                                                   uint64_t bytes);
// The range that begins at an address, or NULL.
struct ct_listed_range *ct_range_list_find_exact(const struct ct_range_list *s, uint64_t start);
// Adds a range of at least one byte that overlaps no other.
void ct_range_list_add(struct ct_range_list *s, const struct ct_listed_range *range);
// Removes the range at a position.
void ct_range_list_remove(struct ct_range_list *s, struct ct_range_list_position at);
void ct_range_list_free(struct ct_range_list *s);

#endif
