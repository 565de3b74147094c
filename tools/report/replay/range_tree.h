// SPDX-License-Identifier: Apache-2.0
// Disjoint ranges of addresses, in order, with the largest one at hand: a B+ tree in which each node knows the largest
// range below it. Time per change grows with the logarithm of the number of ranges, memory with their number.
#ifndef CT_EXTENTS_H
#define CT_EXTENTS_H

#include <stdint.h>

struct ct_range_tree_node;

struct ct_range_tree {
    struct ct_range_tree_node *root; // NULL: nothing
    unsigned height;             // levels
    int marked;                  // its extents were put
    uint64_t count, bytes, largest;
    // the tree's own
    uint64_t leaves;
    struct ct_range_tree_node *spare; // leaves that are not in use
    struct ct_range_tree_node **near; // leaves that were looked for lately, by address >> near_shift
    uint64_t nears;               // places for them, a power of 2
    unsigned near_shift;
};

struct ct_tree_range {
    uint64_t start, bytes;
    uint32_t mark; // the caller's, of an extent that was put
};

// Takes in all of [start, end). Neighbours that it touches become one with it if they lie in [low, high). Returns the bytes
// that were not there before.
uint64_t ct_range_tree_add(struct ct_range_tree *s, uint64_t start, uint64_t end, uint64_t low,
                        uint64_t high);
// Takes out all of [start, end); returns the bytes that were there.
uint64_t ct_range_tree_remove(struct ct_range_tree *s, uint64_t start, uint64_t end);
// An extent that stays as it is, whatever it touches. Nothing may begin there yet. The one that begins there goes, or nothing.
void ct_range_tree_insert_marked(struct ct_range_tree *s, uint64_t start, uint64_t end, uint32_t mark);
void ct_range_tree_erase(struct ct_range_tree *s, uint64_t start);
// The extent that holds the address, or else the first one behind it. 0: none.
int ct_range_tree_find(const struct ct_range_tree *s, uint64_t address, struct ct_tree_range *found);
// Fetches what a change at the address will look at: where to find it (stage 0), and some time later (1) that itself.
void ct_range_tree_prefetch(const struct ct_range_tree *s, uint64_t address, int stage);
void ct_range_tree_clear(struct ct_range_tree *s);

#endif
