// SPDX-License-Identifier: Apache-2.0
// Blocks in an order: a treap whose nodes lie in an array of the caller's, so that one block takes
// no allocation of its own. The order is by size and then address, or by address alone.
#ifndef CT_BLOCK_TREE_H
#define CT_BLOCK_TREE_H

#include <stdint.h>

#define CT_NO_BLOCK UINT32_MAX

struct ct_tree_block {
    uint64_t size, address;
    uint32_t left, right, priority; // the tree's own
};

struct ct_block_tree {
    uint32_t root;
    int by_address;
};

// The array of nodes: node i begins `stride` * i bytes after `nodes`.
struct ct_tree_nodes {
    void *nodes;
    uint32_t stride;
};

static inline struct ct_tree_block *ct_tree_node(const struct ct_tree_nodes *n, uint32_t i) {
    return (struct ct_tree_block *)((char *)n->nodes + (uint64_t)n->stride * i);
}

void ct_block_tree_insert(struct ct_block_tree *t, const struct ct_tree_nodes *n, uint32_t block);
// The block must be in the tree, with the size and address that it had when it was inserted.
void ct_block_tree_erase(struct ct_block_tree *t, const struct ct_tree_nodes *n, uint32_t block);
// The first block that is not before (size, address), or CT_NO_BLOCK.
uint32_t ct_block_tree_find(const struct ct_block_tree *t, const struct ct_tree_nodes *n,
                            uint64_t size, uint64_t address);
// The next block in the order, or CT_NO_BLOCK.
uint32_t ct_block_tree_next(const struct ct_block_tree *t, const struct ct_tree_nodes *n,
                            uint32_t block);
// The last block before (size, address), or CT_NO_BLOCK.
uint32_t ct_block_tree_before(const struct ct_block_tree *t, const struct ct_tree_nodes *n,
                              uint64_t size, uint64_t address);

#endif
