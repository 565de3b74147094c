// SPDX-License-Identifier: Apache-2.0
// The tree of extents. A full node splits only if no neighbour has room, and one that is less than three eighths full joins a
// neighbour or is given some of what that has: in the mean nodes are three quarters full. Most changes stay in one leaf, which
// is found without the tree: by a table of the leaves that were looked for lately.
#include "replay/range_tree.h"

#include <stddef.h>

#include "base/heap.h"

// Elements of a node: at most, and below which it is short of them, from which on it has no room for a neighbour's, after it was
// joined, after a split where they come in order. And places of the smallest table.
enum {
    FAN = 32,
    SCANT = FAN * 3 / 8,
    ROOMY = FAN * 7 / 8,
    JOINED = FAN * 3 / 4,
    IN_ORDER = FAN * 3 / 4,
    FEW_NEAR = 4,
};

struct ct_range_tree_node {
    uint64_t start[FAN]; // of the extent, or of the first one below; UINT64_MAX behind those in use
    uint64_t most[FAN];  // bytes of the extent, or of the largest one below
    struct ct_range_tree_node *above;     // NULL: the root
    struct ct_range_tree_node *previous;  // of leaves
    struct ct_range_tree_node *following; // likewise; of one that is not in use: the next of those
    uint64_t largest;                 // of `most`
    uint32_t used;
    union {                                // (a leaf of a tree without marks ends before it)
        uint32_t mark[FAN];                // in leaves
        struct ct_range_tree_node *below[FAN]; // above them
    };
};

// An extent's place.
struct place {
    struct ct_range_tree_node *leaf;
    uint32_t at;
};

static struct ct_range_tree_node *new_node(struct ct_range_tree *s, int leaf) {
    struct ct_range_tree_node *n = s->spare;
    if (leaf && n)
        s->spare = n->following;
    else
        n = ct_heap_alloc_zeroed(1, leaf && !s->marked ? offsetof(struct ct_range_tree_node, mark) : sizeof *n);
    n->above = n->previous = n->following = NULL;
    n->largest = 0;
    for (uint32_t i = 0; i < FAN; i++)
        n->start[i] = UINT64_MAX;
    s->leaves += leaf != 0;
    return n;
}

// The table may name a leaf that is not in use, which holds no address until it is in use again.
static void end_node(struct ct_range_tree *s, struct ct_range_tree_node *n, int leaf) {
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

static uint64_t largest(const struct ct_range_tree_node *n) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < n->used; i++)
        most = n->most[i] > most ? n->most[i] : most;
    return most;
}

// The last element of a node that does not begin behind the address; the first one if all do.
static uint32_t before(const struct ct_range_tree_node *n, uint64_t address) {
    uint32_t low = 0;
    for (uint32_t step = FAN / 2; step; step /= 2) // (without branches that nobody could predict)
        low = n->start[low + step] <= address ? low + step : low;
    return low < n->used ? low : n->used - 1; // (nothing begins at UINT64_MAX)
}

// ---- leaves ---------------------------------------------------------------------------------------

static struct ct_range_tree_node *first_leaf(const struct ct_range_tree *s) {
    struct ct_range_tree_node *n = s->root;
    for (unsigned level = s->height; level-- > 1;)
        n = n->below[0];
    return n;
}

static uint32_t place_in(const struct ct_range_tree_node *above, const struct ct_range_tree_node *n) {
    uint32_t at = 0;
    while (above->below[at] != n)
        at++;
    return at;
}

// Goes on to the next extent. 0: there is none.
static int next(struct place *p) {
    if (++p->at < p->leaf->used)
        return 1;
    p->leaf = p->leaf->following;
    p->at = 0;
    return p->leaf != NULL;
}

// As many places as there are leaves, twice, each for as many addresses as half a leaf is for.
static void resize_near(struct ct_range_tree *s) {
    uint64_t span = 0, n = s->nears;
    for (const struct ct_range_tree_node *leaf = first_leaf(s); leaf; leaf = leaf->following)
        span += leaf->start[leaf->used - 1] - leaf->start[0];
    while (n < 2 * s->leaves)
        n *= 2;
    free(s->near);
    s->near = ct_heap_alloc_zeroed(n, sizeof(struct ct_range_tree_node *));
    s->nears = n;
    s->near_shift = 0;
    while (s->near_shift < 63 && span / s->leaves / 2 >> s->near_shift > 1)
        s->near_shift++;
}

static struct ct_range_tree_node **near_of(const struct ct_range_tree *s, uint64_t address) {
    return &s->near[address >> s->near_shift & (s->nears - 1)];
}

// Whether an address is a leaf's or a neighbour's of it: that one, or NULL.
static struct ct_range_tree_node *beside(struct ct_range_tree_node *n, uint64_t address) {
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

// The last extent that does not begin behind the address; the first one if all do.
static struct place find(const struct ct_range_tree *s, uint64_t address) {
    struct ct_range_tree_node **near = near_of(s, address), *n = beside(*near, address);
    if (!n) {
        n = s->root;
        for (unsigned level = s->height; level-- > 1;)
            n = n->below[before(n, address)];
    }
    *near = n;
    return (struct place){n, before(n, address)};
}

static struct ct_tree_range here(const struct place *p) {
    return (struct ct_tree_range){.start = p->leaf->start[p->at], .bytes = p->leaf->most[p->at]};
}

// Tells a node, and those above it, of something in it that had `was` bytes and has `is` now (0: none), and whether another
// one may be its first.
static void tell(struct ct_range_tree *s, struct ct_range_tree_node *n, int first, uint64_t was,
                 uint64_t is) {
    for (;;) {
        struct ct_range_tree_node *above = n->above;
        const uint64_t most = n->largest;
        n->largest = is >= most ? is : was < most ? most : largest(n);
        if (!above)
            break;
        if (!first && n->largest == most)
            return;
        const uint32_t at = place_in(above, n);
        above->start[at] = n->start[0];
        above->most[at] = n->largest;
        first = first && !at;
        was = most;
        is = n->largest;
        n = above;
    }
    s->largest = n->largest;
}

static void set(struct ct_range_tree *s, const struct place *p, uint64_t start, uint64_t bytes) {
    const uint64_t was = p->leaf->most[p->at];
    p->leaf->start[p->at] = start;
    p->leaf->most[p->at] = bytes;
    s->bytes += bytes - was;
    tell(s, p->leaf, !p->at, was, bytes);
}

// ---- elements of nodes --------------------------------------------------------------------------

enum move { INNER, LEAF, MARKED };

static enum move how(const struct ct_range_tree *s, int leaf) {
    return !leaf ? INNER : s->marked ? MARKED : LEAF;
}

static void move(struct ct_range_tree_node *to, uint32_t to_at, const struct ct_range_tree_node *from,
                 uint32_t at, uint32_t n, enum move what) {
    memmove(to->start + to_at, from->start + at, n * sizeof *to->start);
    memmove(to->most + to_at, from->most + at, n * sizeof *to->most);
    if (what == MARKED)
        memmove(to->mark + to_at, from->mark + at, n * sizeof *to->mark);
    else if (what == INNER)
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
    n->most[at] = child->largest = largest(child);
    child->above = n;
}

// What was moved into a node knows it.
static void adopt(struct ct_range_tree_node *n, uint32_t from) {
    for (uint32_t i = from; i < n->used; i++)
        n->below[i]->above = n;
}

static void follow(struct ct_range_tree_node *leaf, struct ct_range_tree_node *behind) {
    behind->previous = leaf;
    behind->following = leaf->following;
    if (leaf->following)
        leaf->following->previous = behind;
    leaf->following = behind;
}

// Half of a full child becomes the next one. (Where extents come in order, the last one keeps nearly all.)
static void split(struct ct_range_tree *s, struct ct_range_tree_node *full, int leaf, int in_order) {
    struct ct_range_tree_node *above = full->above, *behind = new_node(s, leaf);
    const uint32_t keep = in_order ? IN_ORDER : FAN / 2, at = place_in(above, full);
    move(behind, 0, full, keep, full->used - keep, how(s, leaf));
    behind->used = full->used - keep;
    set_used(full, keep);
    if (leaf)
        follow(full, behind);
    else
        adopt(behind, 0);
    move(above, at + 2, above, at + 1, above->used - at - 1, INNER);
    above->used++;
    set_child(above, at, full);
    set_child(above, at + 1, behind);
}

// What two neighbours below a node have is shared out evenly.
static void balance(struct ct_range_tree *s, struct ct_range_tree_node *above, uint32_t at, int leaf) {
    struct ct_range_tree_node *first = above->below[at], *second = above->below[at + 1];
    const uint32_t had = first->used, sum = had + second->used, keep = sum / 2;
    if (had > keep) {
        move(second, had - keep, second, 0, second->used, how(s, leaf));
        move(second, 0, first, keep, had - keep, how(s, leaf));
        second->used = sum - keep;
        set_used(first, keep);
    } else {
        move(first, had, second, 0, keep - had, how(s, leaf));
        first->used = keep;
        move(second, 0, second, keep - had, sum - keep, how(s, leaf));
        set_used(second, sum - keep);
    }
    if (!leaf) {
        adopt(first, 0);
        adopt(second, 0);
    }
    set_child(above, at, first);
    set_child(above, at + 1, second);
}

// Whether a neighbour below the same node takes a part of what is in a full one.
static int share(struct ct_range_tree *s, struct ct_range_tree_node *full, int leaf) {
    struct ct_range_tree_node *above = full->above;
    const uint32_t at = place_in(above, full);
    if (at + 1 < above->used && above->below[at + 1]->used <= ROOMY)
        balance(s, above, at, leaf);
    else if (at && above->below[at - 1]->used <= ROOMY)
        balance(s, above, at - 1, leaf);
    return full->used < FAN;
}

// Makes room in a full node, and above it.
static void make_room(struct ct_range_tree *s, struct ct_range_tree_node *n, int leaf, uint64_t start) {
    const int in_order = start > n->start[FAN - 1];
    if (!n->above) {
        struct ct_range_tree_node *root = new_node(s, 0);
        root->used = 1;
        set_child(root, 0, n);
        root->largest = n->largest;
        s->root = root;
        s->height++;
    } else {
        if (share(s, n, leaf))
            return;
        if (n->above->used == FAN)
            make_room(s, n->above, 0, start);
    }
    split(s, n, leaf, in_order);
}

static void take_element(struct ct_range_tree_node *n, uint32_t at, enum move what) {
    move(n, at, n, at + 1, n->used - at - 1, what);
    set_used(n, n->used - 1);
}

// Where what begins at the address belongs.
static struct place place_for(const struct ct_range_tree *s, uint64_t start) {
    struct place p = find(s, start);
    p.at += p.leaf->start[p.at] < start;
    return p;
}

// At a place of a leaf.
static void put_element(struct ct_range_tree *s, struct place p, uint64_t start, uint64_t bytes,
                        uint32_t mark) {
    if (p.leaf->used == FAN) {
        make_room(s, p.leaf, 1, start);
        if (s->leaves > s->nears / 2)
            resize_near(s);
        p = place_for(s, start);
    }
    struct ct_range_tree_node *leaf = p.leaf;
    move(leaf, p.at + 1, leaf, p.at, leaf->used - p.at, how(s, 1));
    leaf->used++;
    leaf->start[p.at] = start;
    leaf->most[p.at] = bytes;
    if (s->marked)
        leaf->mark[p.at] = mark;
    s->count++;
    s->bytes += bytes;
    tell(s, leaf, !p.at, 0, bytes);
}

static void insert(struct ct_range_tree *s, uint64_t start, uint64_t bytes, uint32_t mark) {
    struct place p;
    if (!s->root) {
        s->root = new_node(s, 1);
        s->height = 1;
        p = (struct place){s->root, 0};
        s->near = ct_heap_alloc_zeroed(FEW_NEAR, sizeof(struct ct_range_tree_node *));
        s->nears = FEW_NEAR;
    } else {
        p = place_for(s, start);
    }
    put_element(s, p, start, bytes, mark);
}

// A child with few elements joins a neighbour if both leave room in one, else is given some of what that has.
static void join(struct ct_range_tree *s, struct ct_range_tree_node *above, uint32_t at, int leaf) {
    if (above->used == 1)
        return;
    if (at + 1 == above->used ||
        (at && above->below[at - 1]->used + above->below[at]->used <= JOINED))
        at--;
    struct ct_range_tree_node *first = above->below[at], *second = above->below[at + 1];
    const uint32_t used = first->used;
    if (used + second->used > JOINED) {
        balance(s, above, at, leaf);
        return;
    }
    move(first, used, second, 0, second->used, how(s, leaf));
    first->used += second->used;
    if (!leaf)
        adopt(first, used);
    end_node(s, second, leaf);
    take_element(above, at + 1, INNER);
    set_child(above, at, first);
}

// A node that lost an element joins another one, or goes if it was its last one; and so do those above it.
static void shrink(struct ct_range_tree *s, struct ct_range_tree_node *n) {
    int leaf = 1;
    for (struct ct_range_tree_node *above = n->above; above && n->used < SCANT;
         n = above, above = n->above, leaf = 0) {
        const uint32_t at = place_in(above, n);
        if (n->used) {
            join(s, above, at, leaf);
            continue;
        }
        const uint64_t most = above->most[at];
        end_node(s, n, leaf);
        take_element(above, at, INNER);
        if (above->used)
            tell(s, above, !at, most, 0);
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

static void erase(struct ct_range_tree *s, const struct place *p) {
    struct ct_range_tree_node *leaf = p->leaf;
    const uint64_t was = leaf->most[p->at];
    s->count--;
    s->bytes -= was;
    take_element(leaf, p->at, how(s, 1));
    if (leaf->used)
        tell(s, leaf, !p->at, was, 0);
    if (leaf->used < SCANT)
        shrink(s, leaf);
}

// ---- ranges ---------------------------------------------------------------------------------------

static int ends_before(const struct place *p, uint64_t address) {
    const struct ct_tree_range there = here(p);
    return there.start < address && there.bytes < address - there.start;
}

// The first extent that ends at or behind the address. 0: there is none.
static int reach(const struct ct_range_tree *s, uint64_t address, struct place *p) {
    if (!s->root)
        return 0;
    *p = find(s, address);
    return !ends_before(p, address) || next(p);
}

uint64_t ct_range_tree_add(struct ct_range_tree *s, uint64_t start, uint64_t end, uint64_t low,
                        uint64_t high) {
    const uint64_t bytes = s->bytes;
    uint64_t from = start, to = end;
    struct place p, q;
    if (end <= start)
        return 0;
    int there = reach(s, start, &p);
    if (there && here(&p).start < low) // touches from outside
        there = next(&p);
    if (!there || here(&p).start > end || here(&p).start >= high) {
        insert(s, start, end - start, 0);
        return s->bytes - bytes;
    }
    for (;;) { // all but one of those that it touches go
        const struct ct_tree_range at = here(&p);
        from = at.start < from ? at.start : from;
        to = at.start + at.bytes > to ? at.start + at.bytes : to;
        q = p;
        if (!next(&q) || here(&q).start > to || here(&q).start >= high)
            break;
        if (q.leaf == p.leaf && q.leaf->used > SCANT) { // the next one becomes part of this one
            const struct ct_tree_range behind = here(&q);
            to = behind.start + behind.bytes > to ? behind.start + behind.bytes : to;
            take_element(q.leaf, q.at, how(s, 1));
            s->count--;
            s->bytes -= behind.bytes;
            set(s, &p, from, to - from);
            continue;
        }
        erase(s, &p);
        (void)reach(s, start, &p);
        if (here(&p).start < low)
            (void)next(&p);
    }
    set(s, &p, from, to - from);
    return s->bytes - bytes;
}

uint64_t ct_range_tree_remove(struct ct_range_tree *s, uint64_t start, uint64_t end) {
    const uint64_t bytes = s->bytes;
    struct place p;
    while (start < end && reach(s, start, &p)) {
        struct ct_tree_range at = here(&p);
        if (at.start < start && at.bytes == start - at.start) { // only touches
            if (!next(&p))
                break;
            at = here(&p);
        }
        const uint64_t behind = at.start + at.bytes;
        if (at.start >= end)
            break;
        if (at.start >= start && behind <= end) {
            erase(s, &p);
        } else if (at.start >= start) {
            set(s, &p, end, behind - end);
        } else {
            set(s, &p, at.start, start - at.start);
            p.at++;
            if (behind > end)
                put_element(s, p, end, behind - end, 0);
        }
        start = behind;
    }
    return bytes - s->bytes;
}

void ct_range_tree_insert_marked(struct ct_range_tree *s, uint64_t start, uint64_t end, uint32_t mark) {
    s->marked = 1;
    insert(s, start, end - start, mark);
}

void ct_range_tree_erase(struct ct_range_tree *s, uint64_t start) {
    if (!s->root)
        return;
    const struct place p = find(s, start);
    if (here(&p).start == start)
        erase(s, &p);
}

int ct_range_tree_find(const struct ct_range_tree *s, uint64_t address, struct ct_tree_range *found) {
    if (!s->root)
        return 0;
    struct place p = find(s, address);
    *found = here(&p);
    if (found->start <= address && address - found->start >= found->bytes) {
        if (!next(&p))
            return 0;
        *found = here(&p);
    }
    found->mark = s->marked ? p.leaf->mark[p.at] : 0;
    return 1;
}

void ct_range_tree_prefetch(const struct ct_range_tree *s, uint64_t address, int stage) {
    if (s->height < 3) // in the processor's caches anyway
        return;
    struct ct_range_tree_node *const *near = near_of(s, address);
    if (stage == 0) {
        __builtin_prefetch(near);
        return;
    }
    const struct ct_range_tree_node *n = *near;
    for (const char *line = (const char *)n; n && line < (const char *)(&n->used + 1); line += 64)
        __builtin_prefetch(line, 1);
}

static void clear(struct ct_range_tree_node *n, unsigned level) {
    for (uint32_t i = 0; level && i < n->used; i++)
        clear(n->below[i], level - 1);
    free(n);
}

void ct_range_tree_clear(struct ct_range_tree *s) {
    if (s->root)
        clear(s->root, s->height - 1);
    for (struct ct_range_tree_node *n = s->spare, *following; n; n = following) {
        following = n->following;
        free(n);
    }
    free(s->near);
    *s = (struct ct_range_tree){.marked = s->marked};
}
