// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses that do not overlap, in their order.
#ifndef CT_SPANS_H
#define CT_SPANS_H

#include <stdint.h>

struct ct_listed_range {
    uint64_t start, bytes;
    uint64_t event, t_ns; // that made it
    uint32_t stack;
    int8_t device; // or CT_NO_DEVICE
    uint8_t what;  // the user's
};

static inline uint64_t ct_listed_range_end(const struct ct_listed_range *span) {
    return span->start + span->bytes;
}

// Leaves of spans in order, and a directory of them.
struct ct_range_list {
    struct ct_range_list_entry *leaf;
    uint32_t leaves, room;
};

// A place in the order. Good until a span is added or taken out.
struct ct_range_list_position {
    uint32_t leaf, at;
};

// The first span that ends behind an address.
struct ct_range_list_position ct_range_list_find(const struct ct_range_list *s, uint64_t address);
// The span there, NULL behind the last one; the one before it, NULL if there is none.
struct ct_listed_range *ct_range_list_get(const struct ct_range_list *s, struct ct_range_list_position at);
struct ct_listed_range *ct_range_list_previous(const struct ct_range_list *s, struct ct_range_list_position at);
struct ct_range_list_position ct_range_list_next(const struct ct_range_list *s, struct ct_range_list_position at);
// The first span that overlaps [start, start + bytes), or NULL.
struct ct_listed_range *ct_range_list_find_overlap(const struct ct_range_list *s, uint64_t start, uint64_t bytes);
// The span that begins at an address, or NULL.
struct ct_listed_range *ct_range_list_find_exact(const struct ct_range_list *s, uint64_t start);
// Overlaps none that is there, and has at least one byte.
void ct_range_list_add(struct ct_range_list *s, const struct ct_listed_range *span);
// The one at a place, which is one of a span.
void ct_range_list_remove(struct ct_range_list *s, struct ct_range_list_position at);
void ct_range_list_free(struct ct_range_list *s);

#endif
