// SPDX-License-Identifier: Apache-2.0
// A B+ tree. A full node is split only if no neighbour has room; a node less than three eighths
// full is merged with a neighbour or gets elements from it. So nodes are three quarters full on
// average. Most changes stay in one leaf, which is found without a walk from the root: by a table
// of the leaves that were found lately.
#include "replay/range_tree.h"

#include <cutrace/format/assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

enum {
    FAN = 32,                // elements of a node, at most
    FEW = FAN * 3 / 8,       // with fewer a node is merged or balanced
    ROOM_FOR = FAN * 7 / 8,  // with more a node takes none from a full neighbour
    MERGED = FAN * 3 / 4,    // elements of two nodes that are merged, at most
    ASCENDING = FAN * 3 / 4, // elements that stay in a node that is split by ascending inserts
    RECENT_MIN = 4,          // slots of the smallest table of leaves
};

struct ct_range_tree_node {
    uint64_t start[FAN]; // of the range, or of the first one below; UINT64_MAX in unused elements
    uint64_t most[FAN];  // bytes of the range, or of the largest one below
    struct ct_range_tree_node *above;                // NULL: the root
    struct ct_range_tree_node *previous, *following; // of leaves; `following` links spare ones, too
    uint64_t largest;                                // of `most`
    uint32_t used;
    // Last, because a leaf without marks is allocated without it.
    union {
        uint32_t mark[FAN];                    // in leaves
        struct ct_range_tree_node *below[FAN]; // in inner nodes
    };
};

// Where a range is in the tree.
struct position {
    struct ct_range_tree_node *leaf;
    uint32_t at;
};

static struct ct_range_tree_node *make_node(struct ct_range_tree *s, int leaf) {
    struct ct_range_tree_node *n = s->spare;
    if (leaf && n)
        s->spare = n->following;
    else
        n = ct_heap_alloc_zeroed(1, leaf && !s->marked ? offsetof(struct ct_range_tree_node, mark)
                                                       : sizeof *n);
    n->above = n->previous = n->following = NULL;
    n->largest = 0;
    for (uint32_t i = 0; i < FAN; i++)
        n->start[i] = UINT64_MAX;
    s->leaves += leaf != 0;
    return n;
}

// Leaves are not freed, because the table of recent leaves may point to them: a spare leaf holds no
// address.
static void drop_node(struct ct_range_tree *s, struct ct_range_tree_node *n, int leaf) {
    if (!leaf) {
        free(n);
        return;
    }
    if (n->previous)
        n->previous->following = n->following;
    if (n->following)
        n->following->previous = n->previous;
    n->used = 0;
    n->following = s->spare;
    s->spare = n;
    s->leaves--;
}

static uint64_t find_largest(const struct ct_range_tree_node *n) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < n->used; i++)
        most = n->most[i] > most ? n->most[i] : most;
    return most;
}

// The last element of a node that begins at or before an address; the first one if all begin after
// it.
static uint32_t find_element(const struct ct_range_tree_node *n, uint64_t address) {
    uint32_t low = 0;
    for (uint32_t step = FAN / 2; step; step /= 2) // without branches, which could not be predicted
        low = n->start[low + step] <= address ? low + step : low;
    return low < n->used ? low : n->used - 1; // (unused elements begin at UINT64_MAX)
}

// ---- leaves -------------------------------------------------------------------------------------

static struct ct_range_tree_node *get_first_leaf(const struct ct_range_tree *s) {
    struct ct_range_tree_node *n = s->root;
    for (unsigned level = s->height; level-- > 1;)
        n = n->below[0];
    return n;
}

static uint32_t find_child(const struct ct_range_tree_node *above,
                           const struct ct_range_tree_node *n) {
    uint32_t at = 0;
    while (above->below[at] != n)
        at++;
    return at;
}

// Moves to the next range. 0: there is none.
static int advance(struct position *p) {
    if (++p->at < p->leaf->used)
        return 1;
    p->leaf = p->leaf->following;
    p->at = 0;
    return p->leaf != NULL;
}

// Gives the table two slots a leaf; a slot is for as many addresses as half a leaf spans.
static void resize_recent(struct ct_range_tree *s) {
    uint64_t span = 0, n = s->recent_count;
    for (const struct ct_range_tree_node *leaf = get_first_leaf(s); leaf; leaf = leaf->following)
        span += leaf->start[leaf->used - 1] - leaf->start[0];
    while (n < 2 * s->leaves)
        n *= 2;
    free(s->recent);
    s->recent = ct_heap_alloc_zeroed(n, sizeof(struct ct_range_tree_node *));
    s->recent_count = n;
    s->recent_shift = 0;
    while (s->recent_shift < 63 && span / s->leaves / 2 >> s->recent_shift > 1)
        s->recent_shift++;
}

static struct ct_range_tree_node **recent_slot(const struct ct_range_tree *s, uint64_t address) {
    return &s->recent[address >> s->recent_shift & (s->recent_count - 1)];
}

// The leaf for an address if that is the given one or a neighbour of it, else NULL.
static struct ct_range_tree_node *find_nearby(struct ct_range_tree_node *n, uint64_t address) {
    if (!n || !n->used)
        return NULL;
    if (address < n->start[0]) {
        n = n->previous ? n->previous : n;
        return !n->previous || n->start[0] <= address ? n : NULL;
    }
    if (address <= n->start[n->used - 1] || !n->following || address < n->following->start[0])
        return n;
    n = n->following;
    return address <= n->start[n->used - 1] || !n->following ? n : NULL;
}

// Finds the last range that begins at or before an address; the first one if all begin after it.
static struct position find_position(const struct ct_range_tree *s, uint64_t address) {
    struct ct_range_tree_node **recent = recent_slot(s, address),
                              *n = find_nearby(*recent, address);
    if (!n) {
        n = s->root;
        for (unsigned level = s->height; level-- > 1;)
            n = n->below[find_element(n, address)];
    }
    *recent = n;
    return (struct position){n, find_element(n, address)};
}

static struct ct_tree_range get_range(const struct position *p) {
    return (struct ct_tree_range){.start = p->leaf->start[p->at], .bytes = p->leaf->most[p->at]};
}

// Updates a node and those above it after an element changed from `was` bytes to `is` (0: none).
// `first`: the node may have another first element now.
static void update_above(struct ct_range_tree *s, struct ct_range_tree_node *n, int first,
                         uint64_t was, uint64_t is) {
    for (;;) {
        struct ct_range_tree_node *above = n->above;
        const uint64_t most = n->largest;
        if (is >= most)
            n->largest = is;
        else if (was >= most)
            n->largest = find_largest(n);
        if (!above)
            break;
        if (!first && n->largest == most)
            return;
        const uint32_t at = find_child(above, n);
        above->start[at] = n->start[0];
        above->most[at] = n->largest;
        first = first && !at;
        was = most;
        is = n->largest;
        n = above;
    }
    s->largest = n->largest;
}

// Asserts that a position's range is disjoint from its neighbours in the leaf, and that sums hold.
static void check_position(const struct ct_range_tree *s, const struct position *p) {
    const struct ct_range_tree_node *n = p->leaf;
    CT_ASSERT(p->at < n->used && n->used <= FAN);
    CT_ASSERT(s->largest <= s->bytes && n->most[p->at] <= s->largest);
    CT_ASSERT(!p->at || n->most[p->at - 1] <= n->start[p->at] - n->start[p->at - 1]);
    CT_ASSERT(p->at + 1 == n->used || n->most[p->at] <= n->start[p->at + 1] - n->start[p->at]);
    (void)s;
    (void)n;
}

static void set_range(struct ct_range_tree *s, const struct position *p, uint64_t start,
                      uint64_t bytes) {
    const uint64_t was = p->leaf->most[p->at];
    p->leaf->start[p->at] = start;
    p->leaf->most[p->at] = bytes;
    s->bytes += bytes - was;
    update_above(s, p->leaf, !p->at, was, bytes);
}

// ---- elements of nodes --------------------------------------------------------------------------

// What a node has beside start and most: children, nothing, marks.
enum node_kind { INNER, LEAF, MARKED };

static enum node_kind node_kind(const struct ct_range_tree *s, int leaf) {
    if (!leaf)
        return INNER;
    return s->marked ? MARKED : LEAF;
}

static void move_elements(struct ct_range_tree_node *to, uint32_t to_at,
                          const struct ct_range_tree_node *from, uint32_t at, uint32_t n,
                          enum node_kind kind) {
    memmove(to->start + to_at, from->start + at, n * sizeof *to->start);
    memmove(to->most + to_at, from->most + at, n * sizeof *to->most);
    if (kind == MARKED)
        memmove(to->mark + to_at, from->mark + at, n * sizeof *to->mark);
    else if (kind == INNER)
        memmove(to->below + to_at, from->below + at, n * sizeof *to->below);
}

static void set_used(struct ct_range_tree_node *n, uint32_t used) {
    for (uint32_t i = used; i < n->used; i++)
        n->start[i] = UINT64_MAX;
    n->used = used;
}

static void set_child(struct ct_range_tree_node *n, uint32_t at, struct ct_range_tree_node *child) {
    n->below[at] = child;
    n->start[at] = child->start[0];
    n->most[at] = child->largest = find_largest(child);
    child->above = n;
}

// Sets the parent of children that were moved into a node.
static void adopt_children(struct ct_range_tree_node *n, uint32_t from) {
    for (uint32_t i = from; i < n->used; i++)
        n->below[i]->above = n;
}

static void link_leaf(struct ct_range_tree_node *leaf, struct ct_range_tree_node *second) {
    second->previous = leaf;
    second->following = leaf->following;
    if (leaf->following)
        leaf->following->previous = second;
    leaf->following = second;
}

// Splits a full child in two halves; where ranges are inserted in ascending order, the first one
// keeps more.
static void split_node(struct ct_range_tree *s, struct ct_range_tree_node *full, int leaf,
                       int ascending) {
    struct ct_range_tree_node *above = full->above, *second = make_node(s, leaf);
    const uint32_t keep = ascending ? ASCENDING : FAN / 2, at = find_child(above, full);
    move_elements(second, 0, full, keep, full->used - keep, node_kind(s, leaf));
    second->used = full->used - keep;
    set_used(full, keep);
    if (leaf)
        link_leaf(full, second);
    else
        adopt_children(second, 0);
    move_elements(above, at + 2, above, at + 1, above->used - at - 1, INNER);
    above->used++;
    set_child(above, at, full);
    set_child(above, at + 1, second);
}

// Distributes the elements of two neighbours evenly.
static void balance_nodes(struct ct_range_tree *s, struct ct_range_tree_node *above, uint32_t at,
                          int leaf) {
    struct ct_range_tree_node *first = above->below[at], *second = above->below[at + 1];
    const uint32_t had = first->used, sum = had + second->used, keep = sum / 2;
    if (had > keep) {
        move_elements(second, had - keep, second, 0, second->used, node_kind(s, leaf));
        move_elements(second, 0, first, keep, had - keep, node_kind(s, leaf));
        second->used = sum - keep;
        set_used(first, keep);
    } else {
        move_elements(first, had, second, 0, keep - had, node_kind(s, leaf));
        first->used = keep;
        move_elements(second, 0, second, keep - had, sum - keep, node_kind(s, leaf));
        set_used(second, sum - keep);
    }
    if (!leaf) {
        adopt_children(first, 0);
        adopt_children(second, 0);
    }
    set_child(above, at, first);
    set_child(above, at + 1, second);
}

// Moves elements of a full node to a neighbour below the same node. 0: none has room.
static int share_elements(struct ct_range_tree *s, struct ct_range_tree_node *full, int leaf) {
    struct ct_range_tree_node *above = full->above;
    const uint32_t at = find_child(above, full);
    if (at + 1 < above->used && above->below[at + 1]->used <= ROOM_FOR)
        balance_nodes(s, above, at, leaf);
    else if (at && above->below[at - 1]->used <= ROOM_FOR)
        balance_nodes(s, above, at - 1, leaf);
    return full->used < FAN;
}

// Makes room in a full node for an element that begins at `start`, and in the nodes above it.
static void make_room(struct ct_range_tree *s, struct ct_range_tree_node *n, int leaf,
                      uint64_t start) {
    const int ascending = start > n->start[FAN - 1];
    if (!n->above) {
        struct ct_range_tree_node *root = make_node(s, 0);
        root->used = 1;
        set_child(root, 0, n);
        root->largest = n->largest;
        s->root = root;
        s->height++;
    } else {
        if (share_elements(s, n, leaf))
            return;
        if (n->above->used == FAN)
            make_room(s, n->above, 0, start);
    }
    split_node(s, n, leaf, ascending);
}

static void remove_element(struct ct_range_tree_node *n, uint32_t at, enum node_kind kind) {
    move_elements(n, at, n, at + 1, n->used - at - 1, kind);
    set_used(n, n->used - 1);
}

// The position where a range belongs that begins at an address.
static struct position find_insert_position(const struct ct_range_tree *s, uint64_t start) {
    struct position p = find_position(s, start);
    p.at += p.leaf->start[p.at] < start;
    return p;
}

// Inserts a range at a position of a leaf.
static void insert_element(struct ct_range_tree *s, struct position p, uint64_t start,
                           uint64_t bytes, uint32_t mark) {
    if (p.leaf->used == FAN) {
        make_room(s, p.leaf, 1, start);
        if (s->leaves > s->recent_count / 2)
            resize_recent(s);
        p = find_insert_position(s, start);
    }
    struct ct_range_tree_node *leaf = p.leaf;
    move_elements(leaf, p.at + 1, leaf, p.at, leaf->used - p.at, node_kind(s, 1));
    leaf->used++;
    leaf->start[p.at] = start;
    leaf->most[p.at] = bytes;
    if (s->marked)
        leaf->mark[p.at] = mark;
    s->count++;
    s->bytes += bytes;
    update_above(s, leaf, !p.at, 0, bytes);
    check_position(s, &p);
}

static void insert_range(struct ct_range_tree *s, uint64_t start, uint64_t bytes, uint32_t mark) {
    struct position p;
    if (!s->root) {
        s->root = make_node(s, 1);
        s->height = 1;
        p = (struct position){s->root, 0};
        s->recent = ct_heap_alloc_zeroed(RECENT_MIN, sizeof(struct ct_range_tree_node *));
        s->recent_count = RECENT_MIN;
    } else {
        p = find_insert_position(s, start);
    }
    insert_element(s, p, start, bytes, mark);
}

// Merges a child that has few elements with a neighbour if one node can hold both, else balances
// them.
static void merge_child(struct ct_range_tree *s, struct ct_range_tree_node *above, uint32_t at,
                        int leaf) {
    if (above->used == 1)
        return;
    if (at + 1 == above->used ||
        (at && above->below[at - 1]->used + above->below[at]->used <= MERGED))
        at--;
    struct ct_range_tree_node *first = above->below[at], *second = above->below[at + 1];
    const uint32_t used = first->used;
    if (used + second->used > MERGED) {
        balance_nodes(s, above, at, leaf);
        return;
    }
    move_elements(first, used, second, 0, second->used, node_kind(s, leaf));
    first->used += second->used;
    if (!leaf)
        adopt_children(first, used);
    drop_node(s, second, leaf);
    remove_element(above, at + 1, INNER);
    set_child(above, at, first);
}

// After a leaf lost an element: merges nodes that have few, drops those that have none, up to the
// root.
static void shrink_nodes(struct ct_range_tree *s, struct ct_range_tree_node *n) {
    int leaf = 1;
    for (struct ct_range_tree_node *above = n->above; above && n->used < FEW;
         n = above, above = n->above, leaf = 0) {
        const uint32_t at = find_child(above, n);
        if (n->used) {
            merge_child(s, above, at, leaf);
            continue;
        }
        const uint64_t most = above->most[at];
        drop_node(s, n, leaf);
        remove_element(above, at, INNER);
        if (above->used)
            update_above(s, above, !at, most, 0);
    }
    while (s->height > 1 && s->root->used == 1) {
        struct ct_range_tree_node *only = s->root->below[0];
        free(s->root);
        only->above = NULL;
        s->root = only;
        s->height--;
    }
    if (!s->root->used)
        ct_range_tree_clear(s);
}

static void erase_range(struct ct_range_tree *s, const struct position *p) {
    struct ct_range_tree_node *leaf = p->leaf;
    const uint64_t was = leaf->most[p->at];
    s->count--;
    s->bytes -= was;
    remove_element(leaf, p->at, node_kind(s, 1));
    if (leaf->used)
        update_above(s, leaf, !p->at, was, 0);
    if (leaf->used < FEW)
        shrink_nodes(s, leaf);
}

// ---- ranges -------------------------------------------------------------------------------------

static int ends_before(const struct position *p, uint64_t address) {
    const struct ct_tree_range there = get_range(p);
    return there.start < address && there.bytes < address - there.start;
}

// Finds the first range that ends at or after an address. 0: there is none.
static int find_reaching(const struct ct_range_tree *s, uint64_t address, struct position *p) {
    if (!s->root)
        return 0;
    *p = find_position(s, address);
    return !ends_before(p, address) || advance(p);
}

uint64_t ct_range_tree_add(struct ct_range_tree *s, uint64_t start, uint64_t end, uint64_t low,
                           uint64_t high) {
    const uint64_t bytes = s->bytes;
    uint64_t from = start, to = end;
    struct position p, q;
    if (end <= start)
        return 0;
    int there = find_reaching(s, start, &p);
    if (there && get_range(&p).start < low) // touches, but begins below `low`
        there = advance(&p);
    if (!there || get_range(&p).start > end || get_range(&p).start >= high) {
        insert_range(s, start, end - start, 0);
        return s->bytes - bytes;
    }
    for (;;) { // erase the ranges that it touches, but for one, which gets all of their addresses
        const struct ct_tree_range at = get_range(&p);
        from = at.start < from ? at.start : from;
        to = at.start + at.bytes > to ? at.start + at.bytes : to;
        q = p;
        if (!advance(&q) || get_range(&q).start > to || get_range(&q).start >= high)
            break;
        if (q.leaf == p.leaf && q.leaf->used > FEW) { // merge the next one into this one
            const struct ct_tree_range second = get_range(&q);
            to = second.start + second.bytes > to ? second.start + second.bytes : to;
            remove_element(q.leaf, q.at, node_kind(s, 1));
            s->count--;
            s->bytes -= second.bytes;
            set_range(s, &p, from, to - from);
            continue;
        }
        erase_range(s, &p);
        (void)find_reaching(s, start, &p);
        if (get_range(&p).start < low)
            (void)advance(&p);
    }
    set_range(s, &p, from, to - from);
    check_position(s, &p);
    return s->bytes - bytes;
}

uint64_t ct_range_tree_remove(struct ct_range_tree *s, uint64_t start, uint64_t end) {
    const uint64_t bytes = s->bytes;
    struct position p;
    while (start < end && find_reaching(s, start, &p)) {
        struct ct_tree_range at = get_range(&p);
        if (at.start < start && at.bytes == start - at.start) { // it ends where [start, end) begins
            if (!advance(&p))
                break;
            at = get_range(&p);
        }
        const uint64_t second = at.start + at.bytes;
        if (at.start >= end)
            break;
        if (at.start >= start && second <= end) {
            erase_range(s, &p);
        } else if (at.start >= start) {
            set_range(s, &p, end, second - end);
        } else {
            set_range(s, &p, at.start, start - at.start);
            p.at++;
            if (second > end)
                insert_element(s, p, end, second - end, 0);
        }
        start = second;
    }
    return bytes - s->bytes;
}

void ct_range_tree_insert_marked(struct ct_range_tree *s, uint64_t start, uint64_t end,
                                 uint32_t mark) {
    s->marked = 1;
    insert_range(s, start, end - start, mark);
}

void ct_range_tree_erase(struct ct_range_tree *s, uint64_t start) {
    if (!s->root)
        return;
    const struct position p = find_position(s, start);
    if (get_range(&p).start == start)
        erase_range(s, &p);
}

int ct_range_tree_find(const struct ct_range_tree *s, uint64_t address,
                       struct ct_tree_range *found) {
    if (!s->root)
        return 0;
    struct position p = find_position(s, address);
    *found = get_range(&p);
    if (found->start <= address && address - found->start >= found->bytes) {
        if (!advance(&p))
            return 0;
        *found = get_range(&p);
    }
    found->mark = s->marked ? p.leaf->mark[p.at] : 0;
    return 1;
}

void ct_range_tree_prefetch(const struct ct_range_tree *s, uint64_t address, int stage) {
    if (s->height < 3) // small enough for the caches
        return;
    struct ct_range_tree_node *const *recent = recent_slot(s, address);
    if (stage == 0) {
        __builtin_prefetch(recent);
        return;
    }
    const struct ct_range_tree_node *n = *recent;
    for (const char *line = (const char *)n; n && line < (const char *)(&n->used + 1); line += 64)
        __builtin_prefetch(line, 1);
}

static void free_nodes(struct ct_range_tree_node *n, unsigned level) {
    for (uint32_t i = 0; level && i < n->used; i++)
        free_nodes(n->below[i], level - 1);
    free(n);
}

void ct_range_tree_clear(struct ct_range_tree *s) {
    if (s->root)
        free_nodes(s->root, s->height - 1);
    for (struct ct_range_tree_node *n = s->spare, *following; n; n = following) {
        following = n->following;
        free(n);
    }
    free(s->recent);
    *s = (struct ct_range_tree){.marked = s->marked};
}
