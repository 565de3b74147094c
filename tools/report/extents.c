// SPDX-License-Identifier: Apache-2.0
// The tree of extents. Nodes are at least a quarter full but for the root, and split when they are full.
#include "extents.h"

#include <stddef.h>

#include "memory.h"

enum { FAN = 32, SCANT = FAN / 4, DEEP = 16 }; // SCANT^DEEP: more than there are addresses

struct ct_extent_node {
    uint64_t start[FAN]; // of the extent, or of the first one below
    uint64_t most[FAN];  // bytes of the extent, or of the largest one below
    uint32_t used;
    union {                                // (a leaf of a tree without marks ends before it)
        uint32_t mark[FAN];                // in leaves
        struct ct_extent_node *below[FAN]; // above them
    };
};

// An extent's place: the nodes from its leaf (0) up to the root.
struct place {
    struct ct_extent_node *node[DEEP];
    uint32_t at[DEEP];
};

static struct ct_extent_node *new_node(const struct ct_extents *s, int leaf) {
    return ct_zeroed(1, leaf && !s->marked ? offsetof(struct ct_extent_node, mark)
                                           : sizeof(struct ct_extent_node));
}

static uint64_t largest(const struct ct_extent_node *n) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < n->used; i++)
        most = n->most[i] > most ? n->most[i] : most;
    return most;
}

// The last element of a node that does not begin behind the address; the first one if all do.
static uint32_t before(const struct ct_extent_node *n, uint64_t address) {
    uint32_t low = 0;
    for (uint32_t step = FAN / 2; step; step /= 2) { // (without branches that nobody could predict)
        const uint32_t at = low + step;
        low = ((at < n->used) & (n->start[at] <= address)) ? at : low;
    }
    return low;
}

static void descend(const struct ct_extents *s, uint64_t address, struct place *p) {
    struct ct_extent_node *n = s->root;
    for (unsigned level = s->height; level-- > 1;) {
        p->node[level] = n;
        p->at[level] = before(n, address);
        n = n->below[p->at[level]];
    }
    p->node[0] = n;
    p->at[0] = before(n, address);
}

static struct ct_extent here(const struct place *p) {
    const struct ct_extent_node *leaf = p->node[0];
    const uint32_t at = p->at[0];
    return (struct ct_extent){.start = leaf->start[at], .bytes = leaf->most[at]};
}

// Goes on to the next extent. 0: there is none.
static int next(const struct ct_extents *s, struct place *p) {
    unsigned level = 0;
    while (level < s->height && p->at[level] + 1 >= p->node[level]->used)
        level++;
    if (level == s->height)
        return 0;
    p->at[level]++;
    while (level-- > 0) {
        p->node[level] = p->node[level + 1]->below[p->at[level + 1]];
        p->at[level] = 0;
    }
    return 1;
}

// Tells the nodes above `level` of something there that had `was` bytes and has `is` now (0: none), and of where their first
// ones begin.
static void tell(struct ct_extents *s, const struct place *p, unsigned level, uint64_t was,
                 uint64_t is) {
    for (; level + 1 < s->height; level++) {
        const struct ct_extent_node *n = p->node[level];
        struct ct_extent_node *above = p->node[level + 1];
        const uint32_t at = p->at[level + 1];
        const uint64_t most = above->most[at];
        const int same = above->start[at] == n->start[0];
        above->start[at] = n->start[0];
        above->most[at] = is >= most ? is : was < most ? most : largest(n);
        if (same && above->most[at] == most)
            return;
        was = most;
        is = above->most[at];
    }
    s->largest = is >= s->largest ? is : was < s->largest ? s->largest : largest(s->root);
}

static void set(struct ct_extents *s, const struct place *p, uint64_t start, uint64_t bytes) {
    struct ct_extent_node *leaf = p->node[0];
    const uint64_t was = leaf->most[p->at[0]];
    leaf->start[p->at[0]] = start;
    leaf->most[p->at[0]] = bytes;
    s->bytes += bytes - was;
    tell(s, p, 0, was, bytes);
}

// ---- elements of nodes --------------------------------------------------------------------------

enum move { INNER, LEAF, MARKED };

static enum move how(const struct ct_extents *s, int leaf) {
    return !leaf ? INNER : s->marked ? MARKED : LEAF;
}

static void move(struct ct_extent_node *to, uint32_t to_at, const struct ct_extent_node *from,
                 uint32_t at, uint32_t n, enum move what) {
    memmove(to->start + to_at, from->start + at, n * sizeof *to->start);
    memmove(to->most + to_at, from->most + at, n * sizeof *to->most);
    if (what == MARKED)
        memmove(to->mark + to_at, from->mark + at, n * sizeof *to->mark);
    else if (what == INNER)
        memmove(to->below + to_at, from->below + at, n * sizeof *to->below);
}

static void set_child(struct ct_extent_node *n, uint32_t at, struct ct_extent_node *child) {
    n->below[at] = child;
    n->start[at] = child->start[0];
    n->most[at] = largest(child);
}

// Half of a full child becomes the next one. (Where extents come in order, the last one keeps nearly all.)
static void split(const struct ct_extents *s, struct ct_extent_node *above, uint32_t at, int leaf,
                  int in_order) {
    struct ct_extent_node *full = above->below[at], *behind = new_node(s, leaf);
    const uint32_t keep = in_order ? FAN - SCANT : FAN / 2;
    behind->used = full->used - keep;
    move(behind, 0, full, keep, behind->used, how(s, leaf));
    full->used = keep;
    move(above, at + 2, above, at + 1, above->used - at - 1, INNER);
    above->used++;
    set_child(above, at, full);
    set_child(above, at + 1, behind);
}

// At a place of a leaf that has room.
static void put_element(struct ct_extents *s, const struct place *p, uint64_t start, uint64_t bytes,
                        uint32_t mark) {
    struct ct_extent_node *leaf = p->node[0];
    const uint32_t at = p->at[0];
    move(leaf, at + 1, leaf, at, leaf->used - at, how(s, 1));
    leaf->used++;
    leaf->start[at] = start;
    leaf->most[at] = bytes;
    if (s->marked)
        leaf->mark[at] = mark;
    s->count++;
    s->bytes += bytes;
    tell(s, p, 0, 0, bytes);
}

static void insert(struct ct_extents *s, uint64_t start, uint64_t bytes, uint32_t mark) {
    struct place p;
    if (!s->root) {
        s->root = new_node(s, 1);
        s->height = 1;
    }
    if (s->root->used == FAN) {
        struct ct_extent_node *root = new_node(s, 0);
        root->used = 1;
        set_child(root, 0, s->root);
        s->root = root;
        s->height++;
        split(s, root, 0, s->height == 2, start > root->below[0]->start[FAN - 1]);
    }
    struct ct_extent_node *n = s->root;
    for (unsigned level = s->height; level-- > 1;) {
        uint32_t at = before(n, start);
        if (n->below[at]->used == FAN) {
            split(s, n, at, level == 1, start > n->below[at]->start[FAN - 1]);
            at = before(n, start);
        }
        p.node[level] = n;
        p.at[level] = at;
        n = n->below[at];
    }
    p.node[0] = n;
    p.at[0] = before(n, start);
    if (n->used && n->start[p.at[0]] < start)
        p.at[0]++;
    put_element(s, &p, start, bytes, mark);
}

// A child with few elements joins a neighbour, if both fit into one.
static void join(const struct ct_extents *s, struct ct_extent_node *above, uint32_t at, int leaf) {
    if (at && above->below[at - 1]->used + above->below[at]->used <= FAN / 4 * 3)
        at--;
    else if (at + 1 >= above->used ||
             above->below[at]->used + above->below[at + 1]->used > FAN / 4 * 3)
        return;
    struct ct_extent_node *first = above->below[at], *second = above->below[at + 1];
    move(first, first->used, second, 0, second->used, how(s, leaf));
    first->used += second->used;
    free(second);
    move(above, at + 1, above, at + 2, above->used - at - 2, INNER);
    above->used--;
    set_child(above, at, first);
}

static void take_element(struct ct_extent_node *n, uint32_t at, enum move what) {
    move(n, at, n, at + 1, n->used - at - 1, what);
    n->used--;
}

static void erase(struct ct_extents *s, struct place *p) {
    const uint64_t was = p->node[0]->most[p->at[0]];
    s->count--;
    s->bytes -= was;
    take_element(p->node[0], p->at[0], how(s, 1));
    if (p->node[0]->used)
        tell(s, p, 0, was, 0);
    for (unsigned level = 0; level + 1 < s->height; level++) {
        struct ct_extent_node *n = p->node[level], *above = p->node[level + 1];
        const uint32_t at = p->at[level + 1];
        if (n->used >= SCANT)
            return;
        if (n->used) {
            join(s, above, at, level == 0);
            continue;
        }
        free(n);
        const uint64_t most = above->most[at];
        take_element(above, at, INNER);
        if (above->used)
            tell(s, p, level + 1, most, 0);
    }
    while (s->height > 1 && s->root->used == 1) {
        struct ct_extent_node *only = s->root->below[0];
        free(s->root);
        s->root = only;
        s->height--;
    }
    if (!s->root->used)
        ct_extents_clear(s);
}

// ---- ranges ---------------------------------------------------------------------------------------

// The first extent that ends at or behind the address. 0: there is none.
static int reach(const struct ct_extents *s, uint64_t address, struct place *p) {
    if (!s->root)
        return 0;
    descend(s, address, p);
    const struct ct_extent there = here(p);
    return there.start >= address || there.bytes >= address - there.start || next(s, p);
}

uint64_t ct_extents_add(struct ct_extents *s, uint64_t start, uint64_t end, uint64_t low,
                        uint64_t high) {
    const uint64_t bytes = s->bytes;
    uint64_t from = start, to = end;
    struct place p, q;
    if (end <= start)
        return 0;
    int there = reach(s, start, &p);
    if (there && here(&p).start < low) // touches from outside
        there = next(s, &p);
    if (!there || here(&p).start > end || here(&p).start >= high) {
        insert(s, start, end - start, 0);
        return s->bytes - bytes;
    }
    for (;;) { // all but one of those that it touches go
        const struct ct_extent at = here(&p);
        from = at.start < from ? at.start : from;
        to = at.start + at.bytes > to ? at.start + at.bytes : to;
        q = p;
        if (!next(s, &q) || here(&q).start > to || here(&q).start >= high)
            break;
        if (q.node[0] == p.node[0] &&
            q.node[0]->used > SCANT) { // the next one becomes part of this one
            const struct ct_extent behind = here(&q);
            to = behind.start + behind.bytes > to ? behind.start + behind.bytes : to;
            take_element(q.node[0], q.at[0], how(s, 1));
            s->count--;
            s->bytes -= behind.bytes;
            set(s, &p, from, to - from);
            continue;
        }
        erase(s, &p);
        (void)reach(s, start, &p);
        if (here(&p).start < low)
            (void)next(s, &p);
    }
    set(s, &p, from, to - from);
    return s->bytes - bytes;
}

uint64_t ct_extents_take(struct ct_extents *s, uint64_t start, uint64_t end) {
    const uint64_t bytes = s->bytes;
    struct place p;
    while (start < end && reach(s, start, &p)) {
        struct ct_extent at = here(&p);
        if (at.start < start && at.bytes == start - at.start) { // only touches
            if (!next(s, &p))
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
            p.at[0]++;
            if (behind > end && p.node[0]->used < FAN)
                put_element(s, &p, end, behind - end, 0);
            else if (behind > end)
                insert(s, end, behind - end, 0);
        }
        start = behind;
    }
    return bytes - s->bytes;
}

void ct_extents_put(struct ct_extents *s, uint64_t start, uint64_t end, uint32_t mark) {
    s->marked = 1;
    insert(s, start, end - start, mark);
}

void ct_extents_drop(struct ct_extents *s, uint64_t start) {
    struct place p;
    if (!s->root)
        return;
    descend(s, start, &p);
    if (here(&p).start == start)
        erase(s, &p);
}

int ct_extents_find(const struct ct_extents *s, uint64_t address, struct ct_extent *found) {
    struct place p;
    if (!s->root)
        return 0;
    descend(s, address, &p);
    *found = here(&p);
    if (found->start <= address && address - found->start >= found->bytes) {
        if (!next(s, &p))
            return 0;
        *found = here(&p);
    }
    found->mark = s->marked ? p.node[0]->mark[p.at[0]] : 0;
    return 1;
}

void ct_extents_fetch(const struct ct_extents *s, uint64_t address) {
    const struct ct_extent_node *n = s->root;
    if (s->height < 3) // near anyway
        return;
    for (unsigned level = s->height; level-- > 1;)
        n = n->below[before(n, address)];
    for (const char *line = (const char *)n; line < (const char *)(&n->used + 1); line += 64)
        __builtin_prefetch(line, 1);
}

static void clear(struct ct_extent_node *n, unsigned level) {
    for (uint32_t i = 0; level && i < n->used; i++)
        clear(n->below[i], level - 1);
    free(n);
}

void ct_extents_clear(struct ct_extents *s) {
    if (s->root)
        clear(s->root, s->height - 1);
    *s = (struct ct_extents){.marked = s->marked};
}
