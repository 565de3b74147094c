// SPDX-License-Identifier: Apache-2.0
// Which granules of the devices' addresses are in use, and the gaps between them.
//
// A granule is 2 MiB, the granularity in which the driver hands out device memory. A gap between
// granules in use is room for a large allocation. This is inferred from addresses: only the driver
// knows what lies behind them. A granule that several allocations touch is free when the last of
// them is.
//
// A page has 32 granules in 16 bytes, so dense granules take half a byte each. Pages lie sorted in
// leaves, leaves in a sorted directory. A granule with more than one use is shared: a table has its
// number of uses, in 8 bytes. Header-only and free of I/O; the caller lends the memory. Not
// thread-safe.
#ifndef CUTRACE_ADDRESS_MAP_H
#define CUTRACE_ADDRESS_MAP_H

#include <cutrace/format/assert.h>
#include <cutrace/model/objects.h>

#define CT_GRANULE_SHIFT 21 // 2 MiB
#define CT_PAGE_GRANULES 32u
#define CT_LEAF_PAGES 255u
#define CT_NEAR_PAGES 16u
#define CT_NEAR_GRANULES 64u
#define CT_USES_MAX 0x3FFFu // a granule with so many uses stays in use
// Bounds against a damaged trace: no allocation is larger, and no process uses more.
#define CT_MAP_MAX_GRANULES (UINT64_C(1) << 19) // 1 TiB
#define CT_MAP_MAX_PAGES (UINT32_C(1) << 20)    // 64 TiB
#define CT_MAP_MAX_SHARED (UINT32_C(1) << 22)

struct ct_granule_page {
    uint64_t number;       // device << 38 | address >> 26
    uint32_t used, shared; // masks: granules in use; those of them that are shared
};

struct ct_granule_leaf {
    uint32_t pages, reserved[3];
    struct ct_granule_page page[CT_LEAF_PAGES];
};
_Static_assert(sizeof(struct ct_granule_leaf) == 4096, "a memory page");

struct ct_address_map {
    struct ct_granule_leaf **leaf; // the directory
    uint32_t leaves, leaf_room, pages, recent;
    // The leaf that became empty last. Kept, because an allocation that comes and goes would
    // otherwise allocate and free a leaf at each call.
    struct ct_granule_leaf *spare;
    // Recently found pages, by number; NULL after pages have moved.
    struct ct_granule_page *near[CT_NEAR_PAGES];
    // Recently used shared granules, by number; empty after the table's entries have moved.
    struct ct_near_granule {
        uint64_t granule;
        uint64_t *uses; // in the table `shared`
    } near_granule[CT_NEAR_GRANULES];
    // Open addressing. An entry is (page number * 32 + index in the page) << 14 | uses; 0: free.
    uint64_t *shared;
    uint32_t shared_used, shared_room;
    // As in struct ct_live.
    void *(*resize)(void *user, void *old, size_t old_bytes, size_t new_bytes);
    void *user;
    uint64_t overflow; // uses that are missing for want of memory: gaps may be smaller than shown
};

// The gaps of a device between neighbours that are at most its capacity apart.
struct ct_gaps {
    uint64_t gaps, bytes, largest;
    uint64_t used_bytes; // granules in use
};

static inline void ct_address_map_init(struct ct_address_map *m,
                                       void *(*resize)(void *, void *, size_t, size_t),
                                       void *user) {
    memset(m, 0, sizeof *m);
    m->resize = resize;
    m->user = user;
}

static inline void ct_address_map_release(struct ct_address_map *m) {
    for (uint32_t i = 0; i < m->leaves; i++)
        m->resize(m->user, m->leaf[i], sizeof **m->leaf, 0);
    if (m->spare)
        m->resize(m->user, m->spare, sizeof *m->spare, 0);
    if (m->leaf)
        m->resize(m->user, m->leaf, m->leaf_room * sizeof *m->leaf, 0);
    if (m->shared)
        m->resize(m->user, m->shared, m->shared_room * sizeof *m->shared, 0);
    ct_address_map_init(m, m->resize, m->user);
}

// ---- pages --------------------------------------------------------------------------------------

// Index of the last leaf that begins with this page or a lower one; 0 if there is none.
static inline uint32_t ct_address_map_find_leaf(struct ct_address_map *m, uint64_t number) {
    uint32_t low = 0, high = m->leaves;
    if (m->recent < m->leaves && m->leaf[m->recent]->page[0].number <= number &&
        (m->recent + 1 == m->leaves || number < m->leaf[m->recent + 1]->page[0].number))
        return m->recent;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (m->leaf[middle]->page[0].number <= number)
            low = middle;
        else
            high = middle;
    }
    return m->recent = low;
}

// Index in the leaf of the first page with this number or a higher one.
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

// Inserts an empty leaf at index `at` of the directory; NULL without memory.
static inline struct ct_granule_leaf *ct_address_map_add_leaf(struct ct_address_map *m,
                                                              uint32_t at) {
    if (m->leaves == m->leaf_room) {
        const uint32_t room = m->leaf_room ? m->leaf_room * 2 : 512;
        struct ct_granule_leaf **more =
            (struct ct_granule_leaf **)m->resize(m->user, NULL, 0, room * sizeof *more);
        if (!more)
            return NULL;
        if (m->leaf) {
            memcpy(more, m->leaf, m->leaves * sizeof *more);
            m->resize(m->user, m->leaf, m->leaf_room * sizeof *more, 0);
        }
        m->leaf = more;
        m->leaf_room = room;
    }
    struct ct_granule_leaf *made = m->spare;
    m->spare = NULL;
    if (!made && !(made = (struct ct_granule_leaf *)m->resize(m->user, NULL, 0, sizeof *made)))
        return NULL;
    made->pages = 0;
    memmove(m->leaf + at + 1, m->leaf + at, (m->leaves - at) * sizeof *m->leaf);
    m->leaf[at] = made;
    m->leaves++;
    return made;
}

static inline void ct_address_map_drop_leaf(struct ct_address_map *m, uint32_t at) {
    if (m->spare)
        m->resize(m->user, m->leaf[at], sizeof **m->leaf, 0);
    else
        m->spare = m->leaf[at];
    m->leaves--;
    memmove(m->leaf + at, m->leaf + at + 1, (m->leaves - at) * sizeof *m->leaf);
}

// Moves the pages from index `place` on into a new leaf after this one. Where pages are added at
// the end that is none of them, so that leaves that are filled in order are full.
static inline int ct_address_map_split_leaf(struct ct_address_map *m, uint32_t at, uint32_t place) {
    struct ct_granule_leaf *behind = ct_address_map_add_leaf(m, at + 1);
    struct ct_granule_leaf *leaf = m->leaf[at];
    if (!behind)
        return -1;
    behind->pages = leaf->pages - place;
    memcpy(behind->page, leaf->page + place, behind->pages * sizeof *leaf->page);
    leaf->pages = place;
    return 0;
}

static inline struct ct_granule_page *ct_address_map_find(struct ct_address_map *m,
                                                          uint64_t number) {
    struct ct_granule_page **near = &m->near[number % CT_NEAR_PAGES];
    if (*near && (*near)->number == number)
        return *near;
    if (!m->leaves)
        return NULL;
    struct ct_granule_leaf *leaf = m->leaf[ct_address_map_find_leaf(m, number)];
    const uint32_t place = ct_granule_leaf_find(leaf, number);
    return place < leaf->pages && leaf->page[place].number == number ? *near = &leaf->page[place]
                                                                     : NULL;
}

static inline void ct_address_map_forget_pages(struct ct_address_map *m) {
    memset(m->near, 0, sizeof m->near);
}

static inline struct ct_granule_page *ct_address_map_get_page(struct ct_address_map *m,
                                                              uint64_t number) {
    struct ct_granule_page *there = ct_address_map_find(m, number);
    if (there)
        return there;
    if (m->pages >= CT_MAP_MAX_PAGES || (!m->leaves && !ct_address_map_add_leaf(m, 0)))
        return NULL;
    uint32_t at = ct_address_map_find_leaf(m, number),
             place = ct_granule_leaf_find(m->leaf[at], number);
    ct_address_map_forget_pages(m);
    if (m->leaf[at]->pages == CT_LEAF_PAGES) {
        const uint32_t half = place == CT_LEAF_PAGES ? place : CT_LEAF_PAGES / 2;
        if (ct_address_map_split_leaf(m, at, half))
            return NULL;
        if (place > half || half == CT_LEAF_PAGES) {
            at++;
            place -= half;
        }
    }
    struct ct_granule_leaf *leaf = m->leaf[at];
    memmove(leaf->page + place + 1, leaf->page + place, (leaf->pages - place) * sizeof *leaf->page);
    leaf->page[place] = (struct ct_granule_page){number, 0, 0};
    leaf->pages++;
    m->pages++;
    return &leaf->page[place];
}

// Removes an empty page. Neighbouring leaves are merged if they fit into three quarters of one.
static inline void ct_address_map_drop_page(struct ct_address_map *m, uint64_t number) {
    uint32_t at = ct_address_map_find_leaf(m, number);
    struct ct_granule_leaf *leaf = m->leaf[at];
    const uint32_t place = ct_granule_leaf_find(leaf, number);
    leaf->pages--;
    m->pages--;
    ct_address_map_forget_pages(m);
    memmove(leaf->page + place, leaf->page + place + 1, (leaf->pages - place) * sizeof *leaf->page);
    if (!leaf->pages) {
        ct_address_map_drop_leaf(m, at);
        return;
    }
    if (at && m->leaf[at - 1]->pages + leaf->pages <= CT_LEAF_PAGES / 4 * 3)
        at--;
    else if (at + 1 >= m->leaves || m->leaf[at + 1]->pages + leaf->pages > CT_LEAF_PAGES / 4 * 3)
        return;
    struct ct_granule_leaf *first = m->leaf[at], *second = m->leaf[at + 1];
    memcpy(first->page + first->pages, second->page, second->pages * sizeof *first->page);
    first->pages += second->pages;
    ct_address_map_drop_leaf(m, at + 1);
}

// ---- shared granules ----------------------------------------------------------------------------

static inline uint32_t ct_shared_granule_home(const struct ct_address_map *m, uint64_t granule) {
    return (uint32_t)((ct_slot_index_hash(granule, 0) >> 32) * m->shared_room >> 32);
}

// The granule's entry, or the free entry where it belongs.
static inline uint64_t *ct_shared_granule_at(const struct ct_address_map *m, uint64_t granule) {
    uint32_t i = ct_shared_granule_home(m, granule);
    while (m->shared[i] && m->shared[i] >> 14 != granule)
        i = i + 1 == m->shared_room ? 0 : i + 1;
    return &m->shared[i];
}

static inline void ct_address_map_forget_granules(struct ct_address_map *m) {
    memset(m->near_granule, 0, sizeof m->near_granule);
}

// The entry of a granule that the table has. Remembers it for the next time.
static inline uint64_t *ct_shared_granule_find(struct ct_address_map *m, uint64_t granule) {
    struct ct_near_granule *near = &m->near_granule[granule % CT_NEAR_GRANULES];
    if (!near->uses || near->granule != granule)
        *near = (struct ct_near_granule){granule, ct_shared_granule_at(m, granule)};
    return near->uses;
}

// Grows by a quarter: between two thirds and four fifths of the table are in use.
static inline int ct_shared_granule_grow(struct ct_address_map *m) {
    uint64_t *old = m->shared;
    const uint32_t old_room = m->shared_room;
    const uint32_t room = (old_room + old_room / 4) / 512 * 512 + 512;
    if (room > CT_MAP_MAX_SHARED)
        return -1;
    uint64_t *more = (uint64_t *)m->resize(m->user, NULL, 0, room * sizeof *more);
    if (!more)
        return -1;
    memset(more, 0, room * sizeof *more);
    ct_address_map_forget_granules(m);
    m->shared = more;
    m->shared_room = room;
    for (uint32_t i = 0; i < old_room; i++)
        if (old[i])
            *ct_shared_granule_at(m, old[i] >> 14) = old[i];
    if (old)
        m->resize(m->user, old, old_room * sizeof *old, 0);
    return 0;
}

// One more use of a granule in use. `known`: it is shared, so the table has it.
static inline int ct_shared_granule_add(struct ct_address_map *m, uint64_t granule, int known) {
    if (known) {
        uint64_t *at = ct_shared_granule_find(m, granule);
        *at += (*at & CT_USES_MAX) != CT_USES_MAX;
        return 0;
    }
    if ((uint64_t)(m->shared_used + 1) * 5 > (uint64_t)m->shared_room * 4 &&
        ct_shared_granule_grow(m))
        return -1;
    *ct_shared_granule_at(m, granule) = granule << 14 | 2;
    m->shared_used++;
    return 0;
}

static inline void ct_shared_granule_erase(struct ct_address_map *m, uint32_t hole) {
    ct_address_map_forget_granules(m);
    for (uint32_t i = hole;;) {
        i = i + 1 == m->shared_room ? 0 : i + 1;
        if (!m->shared[i])
            break;
        const uint32_t home = ct_shared_granule_home(m, m->shared[i] >> 14);
        const uint32_t from_home = i >= home ? i - home : i + m->shared_room - home;
        const uint32_t from_hole = i >= hole ? i - hole : i + m->shared_room - hole;
        if (from_home >= from_hole) {
            m->shared[hole] = m->shared[i];
            hole = i;
        }
    }
    m->shared[hole] = 0;
    m->shared_used--;
}

// One use less of a shared granule. Returns 1 if a single use is left: the table does not have it
// any more.
static inline int ct_shared_granule_remove(struct ct_address_map *m, uint64_t granule) {
    uint64_t *at = ct_shared_granule_find(m, granule);
    CT_ASSERT(*at >> 14 == granule && (*at & CT_USES_MAX) >= 2);
    if ((*at & CT_USES_MAX) == CT_USES_MAX || (--*at & CT_USES_MAX) > 1)
        return 0;
    ct_shared_granule_erase(m, (uint32_t)(at - m->shared));
    return 1;
}

// ---- uses ---------------------------------------------------------------------------------------

static inline int ct_granule_page_add(struct ct_address_map *m, uint64_t number,
                                      uint32_t granules) {
    struct ct_granule_page *p = ct_address_map_get_page(m, number);
    if (!p)
        return -1;
    uint32_t again = p->used & granules;
    p->used |= granules;
    for (; again; again &= again - 1) {
        const uint32_t bit = again & (0 - again);
        const uint64_t granule = number * CT_PAGE_GRANULES + (unsigned)__builtin_ctz(again);
        if (ct_shared_granule_add(m, granule, (p->shared & bit) != 0))
            return -1;
        p->shared |= bit;
    }
    CT_ASSERT(!(p->shared & ~p->used));
    return 0;
}

static inline void ct_granule_page_remove(struct ct_address_map *m, uint64_t number,
                                          uint32_t granules) {
    struct ct_granule_page *p = ct_address_map_find(m, number);
    if (!p)
        return;
    uint32_t less = p->shared & granules;
    p->used &= ~(granules & ~p->shared);
    for (; less; less &= less - 1)
        if (ct_shared_granule_remove(m, number * CT_PAGE_GRANULES + (unsigned)__builtin_ctz(less)))
            p->shared &= ~(less & (0 - less));
    if (!p->used)
        ct_address_map_drop_page(m, number);
}

// Adds a use of the range (+1) or removes one (-1).
static inline void ct_address_map_change(struct ct_address_map *m, int device, uint64_t address,
                                         uint64_t bytes, int sign) {
    const uint64_t index = (uint64_t)ct_device_to_index(device);
    if (!bytes || address > UINT64_MAX - bytes)
        return;
    uint64_t at = address >> CT_GRANULE_SHIFT;
    const uint64_t last = (address + bytes - 1) >> CT_GRANULE_SHIFT;
    if (last - at >= CT_MAP_MAX_GRANULES) {
        m->overflow++;
        return;
    }
    for (; at <= last; at = at / CT_PAGE_GRANULES * CT_PAGE_GRANULES + CT_PAGE_GRANULES) {
        const uint64_t page = at / CT_PAGE_GRANULES;
        uint32_t granules = UINT32_MAX << at % CT_PAGE_GRANULES;
        if (page == last / CT_PAGE_GRANULES)
            granules &= UINT32_MAX >> (CT_PAGE_GRANULES - 1 - last % CT_PAGE_GRANULES);
        if (sign < 0)
            ct_granule_page_remove(m, index << 38 | page, granules);
        else if (ct_granule_page_add(m, index << 38 | page, granules))
            m->overflow++;
    }
}

// ct_address_map_change for a small allocation inside one granule that was used recently and has
// more than two uses. Returns 0 for any other allocation.
CT_HOT int ct_address_map_change_near(struct ct_address_map *m, const struct ct_object *o,
                                      int sign) {
    const uint64_t granule = o->key >> CT_GRANULE_SHIFT;
    const struct ct_near_granule *near = &m->near_granule[granule % CT_NEAR_GRANULES];
    if (near->granule != ((uint64_t)ct_device_to_index(o->device) << 43 | granule) || !near->uses ||
        !o->bytes || (o->key + o->bytes - 1) >> CT_GRANULE_SHIFT != granule)
        return 0;
    const uint64_t uses = *near->uses & CT_USES_MAX;
    if (uses <= 2 || uses >= CT_USES_MAX - 1)
        return 0;
    *near->uses += (uint64_t)(int64_t)sign;
    return 1;
}

CT_COLD void ct_address_map_change_object(struct ct_address_map *m, const struct ct_object *o,
                                          int sign) {
    ct_address_map_change(m, o->device, o->key, o->bytes, sign);
}

// For address_changed of struct ct_live: what allocation calls returned. Mappings are left out,
// because they can lie anywhere: gaps between them cost nothing.
CT_HOT void ct_address_map_update(struct ct_address_map *m, const struct ct_object *o,
                                  const struct ct_traits *traits, int sign) {
    if (ct_traits_are_on_device(traits) && !ct_address_map_change_near(m, o, sign))
        ct_address_map_change_object(m, o, sign);
}

// ---- gaps ---------------------------------------------------------------------------------------

static inline void ct_gap_add(struct ct_gaps *g, uint64_t granules, uint64_t capacity) {
    const uint64_t bytes = granules << CT_GRANULE_SHIFT;
    if (!granules || granules > capacity >> CT_GRANULE_SHIFT)
        return;
    g->gaps++;
    g->bytes += bytes;
    g->largest = bytes > g->largest ? bytes : g->largest;
}

// The gaps of a device, given by its index. `capacity` is the size of the device: wider gaps do not
// count.
static inline struct ct_gaps ct_address_map_gaps(struct ct_address_map *m, int device,
                                                 uint64_t capacity) {
    struct ct_gaps g = {0, 0, 0, 0};
    const uint64_t first = (uint64_t)device << 38, behind = (uint64_t)(device + 1) << 38;
    uint64_t end = UINT64_MAX; // of the granules before; UINT64_MAX: none
    if (!m->leaves)
        return g;
    uint32_t place = ct_granule_leaf_find(m->leaf[ct_address_map_find_leaf(m, first)], first);
    for (uint32_t i = ct_address_map_find_leaf(m, first); i < m->leaves; i++, place = 0)
        for (; place < m->leaf[i]->pages; place++) {
            const struct ct_granule_page *p = &m->leaf[i]->page[place];
            if (p->number >= behind)
                return g;
            g.used_bytes += (uint64_t)__builtin_popcount(p->used) << CT_GRANULE_SHIFT;
            for (uint64_t used = p->used, at = (p->number - first) * CT_PAGE_GRANULES; used;) {
                const unsigned skip = (unsigned)__builtin_ctzll(used);
                used >>= skip;
                at += skip;
                if (end != UINT64_MAX)
                    ct_gap_add(&g, at - end, capacity);
                const unsigned run = (unsigned)__builtin_ctzll(~used);
                used >>= run;
                end = at += run;
            }
        }
    return g;
}

// Fragmentation of the gaps: 0 if there is at most one, and closer to 1000 the smaller the largest
// gap is.
static inline uint64_t ct_gaps_permille(const struct ct_gaps *g) {
    return g->bytes ? 1000 - (uint64_t)((unsigned __int128)g->largest * 1000 / g->bytes) : 0;
}

#endif
