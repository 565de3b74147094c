// SPDX-License-Identifier: Apache-2.0
// What is held, as a tree of callers from the outermost frame down. Frames with the same label and
// the same callers are one node. A node holds what its own stacks hold and what its children hold.
#ifndef CT_SITE_TREE_H
#define CT_SITE_TREE_H

#include "analyze/live_at.h"
#include "base/names.h"
#include "symbols/call_sites.h"

// Deeper nodes count in the one at this level. A level is a node that has brothers or holds
// something itself, so the limit is that of a reader's patience.
enum { CT_SITE_TREE_LEVELS = 64 };

struct ct_site_tree_node {
    uint32_t parent;                // a lower number
    uint32_t first_child, children; // positions in `order`
    const char *label;
    uint64_t bytes, count;         // with its children
    uint64_t own_bytes, own_count; // of stacks that end here
    uint16_t level;                // of the row that it is in: 0 the root
    uint8_t is_head;               // it begins a row
    uint8_t shown;                 // it does, and the row is shown; the root always is
    uint32_t head;                 // the first node of its row
};

struct ct_site_tree {
    struct ct_site_tree_node *nodes; // 0: the root, without a label
    size_t count, capacity;
    uint32_t *order; // children side by side, the most bytes first
    struct ct_id_set set;
    struct ct_names labels;
};

// Builds the tree of holdings, of frames that views show. `rows`: how many rows are shown, those
// that hold the most; 0: all.
void ct_site_tree_build(struct ct_site_tree *t, struct ct_call_sites *sites,
                        const struct ct_holding *holdings, size_t n, size_t rows);
// A row is a chain of nodes, each the only child of the one before, which holds nothing itself.
// Returns the last node of the row that a node is in.
uint32_t ct_site_tree_row_end(const struct ct_site_tree *t, uint32_t node);
void ct_site_tree_free(struct ct_site_tree *t);

#endif
