// SPDX-License-Identifier: Apache-2.0
// The largest allocations of a device, as slices on as few tracks as it takes: one track has no two
// that live at the same time.
#ifndef CT_LIFETIMES_H
#define CT_LIFETIMES_H

#include <stddef.h>
#include <stdint.h>

enum { CT_LIFETIMES = 500 }; // that are kept: a viewer shows each track as a line of its own

struct ct_lifetime {
    uint64_t bytes, event, from_ns, to_ns;
    uint64_t stack; // 0: none
    int is_freed;   // at to_ns; else it lives on, or its end is not known
    char *site;     // owned by the list
    unsigned lane;  // number of its track
};

// Begins as all 0.
struct ct_lifetimes {
    struct ct_lifetime *list;
    size_t count, capacity;
    uint64_t all; // that were added
};

// Adds an allocation, with a copy of `site`, if it may be one of the largest.
void ct_lifetimes_add(struct ct_lifetimes *l, const struct ct_lifetime *a, const char *site);
// After the last one: keeps the largest, of equal ones the first, in the order of their begin, and
// gives each its track. Returns the number of tracks.
unsigned ct_lifetimes_arrange(struct ct_lifetimes *l);
void ct_lifetimes_free(struct ct_lifetimes *l);

#endif
