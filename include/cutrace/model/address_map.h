// SPDX-License-Identifier: Apache-2.0
// Which blocks of 2 MiB of the devices' addresses are in use, and the gaps between them.
//
// Header-only and free of I/O; the caller lends the memory. The driver hands out device memory in such blocks, so a
// gap is room for a large allocation: inferred, because only the driver knows what lies behind the addresses. A block
// that several allocations touch is free when the last of them is.
//
// A page is 32 blocks in 16 bytes: half a byte for a block where they lie close. Pages lie sorted in leaves, leaves in a
// sorted directory. A block that is used more than once has the number of its uses in a table, in 8 bytes.
#ifndef CUTRACE_RANGES_H
#define CUTRACE_RANGES_H

#include <cutrace/model/live.h>

#define CT_GRANULE_SHIFT 21
#define CT_PAGE_GRANULES 32u
#define CT_LEAF_PAGES 255u
#define CT_NEAR_PAGES 16u
#define CT_NEAR_GRANULES 64u
#define CT_USES_MAX 0x3FFFu // a block with so many uses stays in use
// No allocation is larger, and no process uses more: bounds for what a damaged trace may say.
#define CT_MAP_MAX_GRANULES (UINT64_C(1) << 19) // 1 TiB
#define CT_MAP_MAX_PAGES (UINT32_C(1) << 20)  // 64 TiB
#define CT_MAP_MAX_SHARED (UINT32_C(1) << 22)

struct ct_granule_page {
    uint64_t number;     // device << 38 | address >> 26
    uint32_t used, many; // blocks in use; those of them that are used more than once
};

struct ct_granule_leaf {
    uint32_t pages, reserved[3];
    struct ct_granule_page page[CT_LEAF_PAGES];
};
_Static_assert(sizeof(struct ct_granule_leaf) == 4096, "a memory page");

struct ct_address_map {
    struct ct_granule_leaf **leaf; // the directory
    uint32_t leaves, leaf_room, pages, recent;
    struct ct_granule_leaf *spare; // the last one that became empty: it may be wanted again at once
    struct ct_granule_page
        *near[CT_NEAR_PAGES]; // that were found lately, by number; NULL: pages have moved since
    struct ct_near_granule {
        uint64_t block;
        uint64_t *uses; // in the table below
    } near_granule
        [CT_NEAR_GRANULES]; // that were used more than once lately, by number; empty: blocks have moved since
    uint64_t *shared; // open addressing: (number of the page * 32 + place) << 14 | uses; 0: free
    uint32_t shared_used, shared_room;
    void *(*resize)(void *user, void *old, size_t old_bytes, size_t new_bytes); // as in live.h
    void *user;
    uint64_t overflow; // uses that were left out: the rest is not the whole truth
};

// The gaps of a device between neighbours that lie no further apart than `far`.
struct ct_gaps {
    uint64_t gaps, bytes, largest;
    uint64_t used_bytes; // of blocks in use
};

static inline void ct_address_map_init(struct ct_address_map *r,
                                  void *(*resize)(void *, void *, size_t, size_t), void *user) {
    memset(r, 0, sizeof *r);
    r->resize = resize;
    r->user = user;
}

static inline void ct_address_map_release(struct ct_address_map *r) {
    for (uint32_t i = 0; i < r->leaves; i++)
        r->resize(r->user, r->leaf[i], sizeof **r->leaf, 0);
    if (r->spare)
        r->resize(r->user, r->spare, sizeof *r->spare, 0);
    if (r->leaf)
        r->resize(r->user, r->leaf, r->leaf_room * sizeof *r->leaf, 0);
    if (r->shared)
        r->resize(r->user, r->shared, r->shared_room * sizeof *r->shared, 0);
    ct_address_map_init(r, r->resize, r->user);
}

// ---- pages --------------------------------------------------------------------------------------

// The last leaf that begins with this page or one before it; 0 if there is none.
static inline uint32_t ct_address_map_find_leaf(struct ct_address_map *r, uint64_t number) {
    uint32_t low = 0, high = r->leaves;
    if (r->recent < r->leaves && r->leaf[r->recent]->page[0].number <= number &&
        (r->recent + 1 == r->leaves || number < r->leaf[r->recent + 1]->page[0].number))
        return r->recent;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (r->leaf[middle]->page[0].number <= number)
            low = middle;
        else
            high = middle;
    }
    return r->recent = low;
}

// The place of the first page in the leaf that is not before this one.
static inline uint32_t ct_granule_leaf_find(const struct ct_granule_leaf *leaf, uint64_t number) {
    uint32_t low = 0, high = leaf->pages;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (leaf->page[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// An empty leaf behind the first `at` ones, or NULL.
static inline struct ct_granule_leaf *ct_address_map_add_leaf(struct ct_address_map *r, uint32_t at) {
    if (r->leaves == r->leaf_room) {
        const uint32_t room = r->leaf_room ? r->leaf_room * 2 : 512;
        struct ct_granule_leaf **more = (struct ct_granule_leaf **)r->resize(r->user, NULL, 0, room * sizeof *more);
        if (!more)
            return NULL;
        if (r->leaf) {
            memcpy(more, r->leaf, r->leaves * sizeof *more);
            r->resize(r->user, r->leaf, r->leaf_room * sizeof *more, 0);
        }
        r->leaf = more;
        r->leaf_room = room;
    }
    struct ct_granule_leaf *made = r->spare;
    r->spare = NULL;
    if (!made && !(made = (struct ct_granule_leaf *)r->resize(r->user, NULL, 0, sizeof *made)))
        return NULL;
    made->pages = 0;
    memmove(r->leaf + at + 1, r->leaf + at, (r->leaves - at) * sizeof *r->leaf);
    r->leaf[at] = made;
    r->leaves++;
    return made;
}

static inline void ct_address_map_drop_leaf(struct ct_address_map *r, uint32_t at) {
    if (r->spare)
        r->resize(r->user, r->leaf[at], sizeof **r->leaf, 0);
    else
        r->spare = r->leaf[at];
    r->leaves--;
    memmove(r->leaf + at, r->leaf + at + 1, (r->leaves - at) * sizeof *r->leaf);
}

// Moves the pages from `place` on into a new leaf behind: none of them where pages are added at the end, so that
// leaves that are filled in order are full.
static inline int ct_address_map_split_leaf(struct ct_address_map *r, uint32_t at, uint32_t place) {
    struct ct_granule_leaf *behind = ct_address_map_add_leaf(r, at + 1);
    struct ct_granule_leaf *leaf = r->leaf[at];
    if (!behind)
        return -1;
    behind->pages = leaf->pages - place;
    memcpy(behind->page, leaf->page + place, behind->pages * sizeof *leaf->page);
    leaf->pages = place;
    return 0;
}

static inline struct ct_granule_page *ct_address_map_find(struct ct_address_map *r, uint64_t number) {
    struct ct_granule_page **near = &r->near[number % CT_NEAR_PAGES];
    if (*near && (*near)->number == number)
        return *near;
    if (!r->leaves)
        return NULL;
    struct ct_granule_leaf *leaf = r->leaf[ct_address_map_find_leaf(r, number)];
    const uint32_t place = ct_granule_leaf_find(leaf, number);
    return place < leaf->pages && leaf->page[place].number == number ? *near = &leaf->page[place]
                                                                     : NULL;
}

static inline void ct_address_map_forget_pages(struct ct_address_map *r) {
    memset(r->near, 0, sizeof r->near);
}

static inline struct ct_granule_page *ct_address_map_get_page(struct ct_address_map *r, uint64_t number) {
    struct ct_granule_page *there = ct_address_map_find(r, number);
    if (there)
        return there;
    if (r->pages >= CT_MAP_MAX_PAGES || (!r->leaves && !ct_address_map_add_leaf(r, 0)))
        return NULL;
    uint32_t at = ct_address_map_find_leaf(r, number), place = ct_granule_leaf_find(r->leaf[at], number);
    ct_address_map_forget_pages(r);
    if (r->leaf[at]->pages == CT_LEAF_PAGES) {
        const uint32_t half = place == CT_LEAF_PAGES ? place : CT_LEAF_PAGES / 2;
        if (ct_address_map_split_leaf(r, at, half))
            return NULL;
        if (place > half || half == CT_LEAF_PAGES) {
            at++;
            place -= half;
        }
    }
    struct ct_granule_leaf *leaf = r->leaf[at];
    memmove(leaf->page + place + 1, leaf->page + place, (leaf->pages - place) * sizeof *leaf->page);
    leaf->page[place] = (struct ct_granule_page){number, 0, 0};
    leaf->pages++;
    r->pages++;
    return &leaf->page[place];
}

// Takes an empty page out; neighbouring leaves that fit into three quarters of one become one.
static inline void ct_address_map_drop_page(struct ct_address_map *r, uint64_t number) {
    uint32_t at = ct_address_map_find_leaf(r, number);
    struct ct_granule_leaf *leaf = r->leaf[at];
    const uint32_t place = ct_granule_leaf_find(leaf, number);
    leaf->pages--;
    r->pages--;
    ct_address_map_forget_pages(r);
    memmove(leaf->page + place, leaf->page + place + 1, (leaf->pages - place) * sizeof *leaf->page);
    if (!leaf->pages) {
        ct_address_map_drop_leaf(r, at);
        return;
    }
    if (at && r->leaf[at - 1]->pages + leaf->pages <= CT_LEAF_PAGES / 4 * 3)
        at--;
    else if (at + 1 >= r->leaves || r->leaf[at + 1]->pages + leaf->pages > CT_LEAF_PAGES / 4 * 3)
        return;
    struct ct_granule_leaf *first = r->leaf[at], *second = r->leaf[at + 1];
    memcpy(first->page + first->pages, second->page, second->pages * sizeof *first->page);
    first->pages += second->pages;
    ct_address_map_drop_leaf(r, at + 1);
}

// ---- blocks that are used more than once ------------------------------------------------------

static inline uint32_t ct_shared_granule_home(const struct ct_address_map *r, uint64_t block) {
    return (uint32_t)((ct_slot_index_hash(block, 0) >> 32) * r->shared_room >> 32);
}

// Where the block is, or the free place where it belongs.
static inline uint64_t *ct_shared_granule_at(const struct ct_address_map *r, uint64_t block) {
    uint32_t i = ct_shared_granule_home(r, block);
    while (r->shared[i] && r->shared[i] >> 14 != block)
        i = i + 1 == r->shared_room ? 0 : i + 1;
    return &r->shared[i];
}

static inline void ct_address_map_forget_granules(struct ct_address_map *r) {
    memset(r->near_granule, 0, sizeof r->near_granule);
}

// The same of a block that is there; so that it is found at once the next time.
static inline uint64_t *ct_shared_granule_find(struct ct_address_map *r, uint64_t block) {
    struct ct_near_granule *near = &r->near_granule[block % CT_NEAR_GRANULES];
    if (!near->uses || near->block != block)
        *near = (struct ct_near_granule){block, ct_shared_granule_at(r, block)};
    return near->uses;
}

// Grows by a quarter, so that four fifths to two thirds are used.
static inline int ct_shared_granule_grow(struct ct_address_map *r) {
    uint64_t *old = r->shared;
    const uint32_t old_room = r->shared_room;
    const uint32_t room = (old_room + old_room / 4) / 512 * 512 + 512;
    if (room > CT_MAP_MAX_SHARED)
        return -1;
    uint64_t *more = (uint64_t *)r->resize(r->user, NULL, 0, room * sizeof *more);
    if (!more)
        return -1;
    memset(more, 0, room * sizeof *more);
    ct_address_map_forget_granules(r);
    r->shared = more;
    r->shared_room = room;
    for (uint32_t i = 0; i < old_room; i++)
        if (old[i])
            *ct_shared_granule_at(r, old[i] >> 14) = old[i];
    if (old)
        r->resize(r->user, old, old_room * sizeof *old, 0);
    return 0;
}

// One more use of a block that has `uses` already, of which the table knows if there are more than one.
static inline int ct_shared_granule_add(struct ct_address_map *r, uint64_t block, int known) {
    if (known) {
        uint64_t *at = ct_shared_granule_find(r, block);
        *at += (*at & CT_USES_MAX) != CT_USES_MAX;
        return 0;
    }
    if ((uint64_t)(r->shared_used + 1) * 5 > (uint64_t)r->shared_room * 4 && ct_shared_granule_grow(r))
        return -1;
    *ct_shared_granule_at(r, block) = block << 14 | 2;
    r->shared_used++;
    return 0;
}

static inline void ct_shared_granule_erase(struct ct_address_map *r, uint32_t hole) {
    ct_address_map_forget_granules(r);
    for (uint32_t i = hole;;) {
        i = i + 1 == r->shared_room ? 0 : i + 1;
        if (!r->shared[i])
            break;
        const uint32_t home = ct_shared_granule_home(r, r->shared[i] >> 14);
        const uint32_t from_home = i >= home ? i - home : i + r->shared_room - home;
        const uint32_t from_hole = i >= hole ? i - hole : i + r->shared_room - hole;
        if (from_home >= from_hole) {
            r->shared[hole] = r->shared[i];
            hole = i;
        }
    }
    r->shared[hole] = 0;
    r->shared_used--;
}

// One use less; returns whether a single one is left, of which the table does not know any more.
static inline int ct_shared_granule_remove(struct ct_address_map *r, uint64_t block) {
    uint64_t *at = ct_shared_granule_find(r, block);
    if ((*at & CT_USES_MAX) == CT_USES_MAX || (--*at & CT_USES_MAX) > 1)
        return 0;
    ct_shared_granule_erase(r, (uint32_t)(at - r->shared));
    return 1;
}

// ---- uses ---------------------------------------------------------------------------------------

static inline int ct_granule_page_add(struct ct_address_map *r, uint64_t number, uint32_t blocks) {
    struct ct_granule_page *p = ct_address_map_get_page(r, number);
    if (!p)
        return -1;
    uint32_t again = p->used & blocks;
    p->used |= blocks;
    for (; again; again &= again - 1) {
        const uint32_t bit = again & (0 - again);
        const uint64_t block = number * CT_PAGE_GRANULES + (unsigned)__builtin_ctz(again);
        if (ct_shared_granule_add(r, block, (p->many & bit) != 0))
            return -1;
        p->many |= bit;
    }
    return 0;
}

static inline void ct_granule_page_remove(struct ct_address_map *r, uint64_t number, uint32_t blocks) {
    struct ct_granule_page *p = ct_address_map_find(r, number);
    if (!p)
        return;
    uint32_t less = p->many & blocks;
    p->used &= ~(blocks & ~p->many);
    for (; less; less &= less - 1)
        if (ct_shared_granule_remove(r, number * CT_PAGE_GRANULES + (unsigned)__builtin_ctz(less)))
            p->many &= ~(less & (0 - less));
    if (!p->used)
        ct_address_map_drop_page(r, number);
}

// The range is used once more (+1) or once less (-1).
static inline void ct_address_map_change(struct ct_address_map *r, int device, uint64_t address,
                                    uint64_t bytes, int sign) {
    const uint64_t index = (uint64_t)ct_device_to_index(device);
    if (!bytes || address > UINT64_MAX - bytes)
        return;
    uint64_t at = address >> CT_GRANULE_SHIFT;
    const uint64_t last = (address + bytes - 1) >> CT_GRANULE_SHIFT;
    if (last - at >= CT_MAP_MAX_GRANULES) {
        r->overflow++;
        return;
    }
    for (; at <= last; at = at / CT_PAGE_GRANULES * CT_PAGE_GRANULES + CT_PAGE_GRANULES) {
        const uint64_t page = at / CT_PAGE_GRANULES;
        uint32_t blocks = UINT32_MAX << at % CT_PAGE_GRANULES;
        if (page == last / CT_PAGE_GRANULES)
            blocks &= UINT32_MAX >> (CT_PAGE_GRANULES - 1 - last % CT_PAGE_GRANULES);
        if (sign < 0)
            ct_granule_page_remove(r, index << 38 | page, blocks);
        else if (ct_granule_page_add(r, index << 38 | page, blocks))
            r->overflow++;
    }
}

// The same of a small allocation in a block that many others use. 0: it is none.
CT_HOT int ct_address_map_change_near(struct ct_address_map *r, const struct ct_object *o, int sign) {
    const uint64_t block = o->key >> CT_GRANULE_SHIFT;
    const struct ct_near_granule *near = &r->near_granule[block % CT_NEAR_GRANULES];
    if (near->block != ((uint64_t)ct_device_to_index(o->device) << 43 | block) || !near->uses ||
        !o->bytes || (o->key + o->bytes - 1) >> CT_GRANULE_SHIFT != block)
        return 0;
    const uint64_t uses = *near->uses & CT_USES_MAX;
    if (uses <= 2 || uses >= CT_USES_MAX - 1)
        return 0;
    *near->uses += (uint64_t)(int64_t)sign;
    return 1;
}

CT_COLD void ct_address_map_change_object(struct ct_address_map *r, const struct ct_object *o, int sign) {
    ct_address_map_change(r, o->device, o->key, o->bytes, sign);
}

// For live.h's `placed`: what allocation calls returned. Mappings of VMM objects can lie anywhere, gaps between them
// cost nothing.
CT_HOT void ct_address_map_update(struct ct_address_map *r, const struct ct_object *o,
                             const struct ct_traits *from, int sign) {
    if (ct_traits_are_on_device(from) && !ct_address_map_change_near(r, o, sign))
        ct_address_map_change_object(r, o, sign);
}

// ---- gaps ---------------------------------------------------------------------------------------

static inline void ct_gap_add(struct ct_gaps *g, uint64_t blocks, uint64_t far) {
    const uint64_t bytes = blocks << CT_GRANULE_SHIFT;
    if (!blocks || blocks > far >> CT_GRANULE_SHIFT)
        return;
    g->gaps++;
    g->bytes += bytes;
    g->largest = bytes > g->largest ? bytes : g->largest;
}

// Of a device's index. `far` is the device's capacity: no gap is wider.
static inline struct ct_gaps ct_address_map_gaps(struct ct_address_map *r, int device, uint64_t far) {
    struct ct_gaps g = {0, 0, 0, 0};
    const uint64_t first = (uint64_t)device << 38, behind = (uint64_t)(device + 1) << 38;
    uint64_t end = UINT64_MAX; // of the blocks before
    if (!r->leaves)
        return g;
    uint32_t place = ct_granule_leaf_find(r->leaf[ct_address_map_find_leaf(r, first)], first);
    for (uint32_t i = ct_address_map_find_leaf(r, first); i < r->leaves; i++, place = 0)
        for (; place < r->leaf[i]->pages; place++) {
            const struct ct_granule_page *p = &r->leaf[i]->page[place];
            if (p->number >= behind)
                return g;
            g.used_bytes += (uint64_t)__builtin_popcount(p->used) << CT_GRANULE_SHIFT;
            for (uint64_t used = p->used, at = (p->number - first) * CT_PAGE_GRANULES; used;) {
                const unsigned skip = (unsigned)__builtin_ctzll(used);
                used >>= skip;
                at += skip;
                if (end != UINT64_MAX)
                    ct_gap_add(&g, at - end, far);
                const unsigned run = (unsigned)__builtin_ctzll(~used);
                used >>= run;
                end = at += run;
            }
        }
    return g;
}

// How scattered the room between allocations is: 0 where it is in one piece (or there is none), towards 1000 the
// smaller the largest piece is.
static inline uint64_t ct_gaps_permille(const struct ct_gaps *g) {
    return g->bytes ? 1000 - (uint64_t)((unsigned __int128)g->largest * 1000 / g->bytes) : 0;
}

#endif
