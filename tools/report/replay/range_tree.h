// SPDX-License-Identifier: Apache-2.0
// Disjoint address ranges in ascending order, with the largest one at hand: a B+ tree in which each
// node knows the largest range below it. A change takes time in the logarithm of the number of
// ranges.
//
// A tree is used in one of two ways: as a set of addresses (add, remove), where ranges that touch
// are merged; or as ranges that stay as they are, each with a mark (insert_marked, erase).
#ifndef CT_RANGE_TREE_H
#define CT_RANGE_TREE_H

#include <stdint.h>

struct ct_range_tree_node;

struct ct_range_tree {
    struct ct_range_tree_node *root; // NULL: empty
    unsigned height;                 // levels
    int marked;                      // its ranges have marks
    uint64_t count, bytes, largest;  // of all ranges
    // The tree's own.
    uint64_t leaves;
    struct ct_range_tree_node *spare;   // leaves that are not in use
    struct ct_range_tree_node **recent; // leaves found lately, by address >> recent_shift
    uint64_t recent_count;              // slots for them, a power of 2
    unsigned recent_shift;
};

struct ct_tree_range {
    uint64_t start, bytes;
    uint32_t mark; // the caller's own; 0 in a set of addresses
};

// Adds all addresses of [start, end). Merges ranges that it touches, if they begin in [low, high).
// Returns how many were new.
uint64_t ct_range_tree_add(struct ct_range_tree *s, uint64_t start, uint64_t end, uint64_t low,
                           uint64_t high);
// Removes all addresses of [start, end). Returns how many there were.
uint64_t ct_range_tree_remove(struct ct_range_tree *s, uint64_t start, uint64_t end);
// Inserts a range with a mark. No other may begin at the same address.
void ct_range_tree_insert_marked(struct ct_range_tree *s, uint64_t start, uint64_t end,
                                 uint32_t mark);
// Erases the range that begins at an address, if there is one.
void ct_range_tree_erase(struct ct_range_tree *s, uint64_t start);
// Finds the range that holds an address, else the first one after it. 0: there is none.
int ct_range_tree_find(const struct ct_range_tree *s, uint64_t address,
                       struct ct_tree_range *found);
// Prefetches what a change at the address needs: first (stage 0) the slot of its leaf, some time
// later (1) the leaf.
void ct_range_tree_prefetch(const struct ct_range_tree *s, uint64_t address, int stage);
// Erases all ranges and frees their memory.
void ct_range_tree_clear(struct ct_range_tree *s);

#endif
