// SPDX-License-Identifier: Apache-2.0
#include "allocator/block_tree.h"

// A place in the order. Blocks with the same size and address, which a hostile trace can make, are
// in the order of their indices.
struct place {
    uint64_t size, address;
    uint32_t block;
};

static int is_before(const struct ct_block_tree *t, const struct ct_tree_nodes *n, uint32_t block,
                     const struct place *p) {
    const struct ct_tree_block *b = ct_tree_node(n, block);
    if (!t->by_address && b->size != p->size)
        return b->size < p->size;
    return b->address != p->address ? b->address < p->address : block < p->block;
}

// A number that follows from the index: the input cannot choose a bad order of the tree.
static uint32_t priority_of(uint32_t block) {
    uint64_t x = (block + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return (uint32_t)(x >> 32);
}

// Divides a tree into the blocks before a place and the others.
static void split(const struct ct_block_tree *t, const struct ct_tree_nodes *n, uint32_t root,
                  const struct place *at, uint32_t *before, uint32_t *others) {
    while (root != CT_NO_BLOCK) {
        struct ct_tree_block *b = ct_tree_node(n, root);
        if (is_before(t, n, root, at)) {
            *before = root;
            before = &b->right;
            root = b->right;
        } else {
            *others = root;
            others = &b->left;
            root = b->left;
        }
    }
    *before = *others = CT_NO_BLOCK;
}

void ct_block_tree_insert(struct ct_block_tree *t, const struct ct_tree_nodes *n, uint32_t block) {
    struct ct_tree_block *b = ct_tree_node(n, block);
    const struct place at = {b->size, b->address, block};
    uint32_t *place = &t->root;
    b->priority = priority_of(block);
    while (*place != CT_NO_BLOCK) {
        struct ct_tree_block *there = ct_tree_node(n, *place);
        if (there->priority < b->priority)
            break;
        place = is_before(t, n, *place, &at) ? &there->right : &there->left;
    }
    split(t, n, *place, &at, &b->left, &b->right);
    *place = block;
}

void ct_block_tree_erase(struct ct_block_tree *t, const struct ct_tree_nodes *n, uint32_t block) {
    const struct ct_tree_block *b = ct_tree_node(n, block);
    const struct place at = {b->size, b->address, block};
    uint32_t *place = &t->root, left = b->left, right = b->right;
    while (*place != block) {
        struct ct_tree_block *there = ct_tree_node(n, *place);
        place = is_before(t, n, *place, &at) ? &there->right : &there->left;
    }
    while (left != CT_NO_BLOCK && right != CT_NO_BLOCK) { // joins what was below it
        struct ct_tree_block *l = ct_tree_node(n, left), *r = ct_tree_node(n, right);
        if (l->priority > r->priority) {
            *place = left;
            place = &l->right;
            left = l->right;
        } else {
            *place = right;
            place = &r->left;
            right = r->left;
        }
    }
    *place = left != CT_NO_BLOCK ? left : right;
}

// The first block that is not before a place, or CT_NO_BLOCK.
static uint32_t find_from(const struct ct_block_tree *t, const struct ct_tree_nodes *n,
                          const struct place *p) {
    uint32_t found = CT_NO_BLOCK;
    for (uint32_t at = t->root; at != CT_NO_BLOCK;) {
        const struct ct_tree_block *b = ct_tree_node(n, at);
        if (is_before(t, n, at, p)) {
            at = b->right;
        } else {
            found = at;
            at = b->left;
        }
    }
    return found;
}

uint32_t ct_block_tree_find(const struct ct_block_tree *t, const struct ct_tree_nodes *n,
                            uint64_t size, uint64_t address) {
    return find_from(t, n, &(struct place){size, address, 0});
}

uint32_t ct_block_tree_next(const struct ct_block_tree *t, const struct ct_tree_nodes *n,
                            uint32_t block) {
    const struct ct_tree_block *b = ct_tree_node(n, block);
    return find_from(t, n, &(struct place){b->size, b->address, block + 1});
}

uint32_t ct_block_tree_before(const struct ct_block_tree *t, const struct ct_tree_nodes *n,
                              uint64_t size, uint64_t address) {
    const struct place p = {size, address, 0};
    uint32_t found = CT_NO_BLOCK;
    for (uint32_t at = t->root; at != CT_NO_BLOCK;) {
        const struct ct_tree_block *b = ct_tree_node(n, at);
        if (is_before(t, n, at, &p)) {
            found = at;
            at = b->right;
        } else {
            at = b->left;
        }
    }
    return found;
}
