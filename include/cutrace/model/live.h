// SPDX-License-Identifier: Apache-2.0
// What is alive in a process: the state that a sequence of events leads to.
//
// Header-only and free of I/O, because the writer (in the traced process) and the report (from a
// file) must come to the same answer. The caller lends the memory. Not thread-safe.
//
// Memory: objects lie in slots of 40 bytes, in segments that never move, so that pointers and slot numbers stay
// good until the object ends. What many objects have in common (thread, api, context, ...) is kept once, in a slot of
// its own. An index finds an object by kind and key; it has 32 parts that grow one at a time, so that neither a long
// pause nor two whole indexes are ever needed. Together at most 55 bytes for an object (56 lie in a full index just grown).
//
// Sources of the rules: cuda.h, at cuMemFree (what it accepts), cuMemRelease ("freed when all
// outstanding mappings are unmapped and all references released"), cuCtxDestroy (ends neither VMM
// objects nor stream-ordered allocations), cuda_runtime_api.h at cudaDeviceReset (the same).
#ifndef CUTRACE_LIVE_H
#define CUTRACE_LIVE_H

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cutrace/format/event_match.h>
#include <cutrace/format/format.h>
#include <cutrace/format/hot.h>

enum ct_kind {
    CT_KIND_NONE = 0,
    CT_KIND_ADDRESS,    // alloc: key is the address
    CT_KIND_ARRAY,      // alloc of an array: key is the handle
    CT_KIND_HANDLE,     // create, import: key is the handle; refs, maps
    CT_KIND_MAPPING,    // map: key is the address, link the handle
    CT_KIND_GRAPH,      // graph-alloc: key is the address
    CT_KIND_REGISTERED, // register: key is the address
    CT_KIND_IPC,        // ipc-open: key is the address; refs
    CT_KIND_RESERVED,   // reserve: key is the address
    CT_KIND_POOL,  // key is the pool; bytes handed out, link the bytes reserved as last sampled
    CT_KIND_SITE_SUM, // many allocations of which only the sum is known: link is how many
    CT_KIND_BLOCK, // block-alloc: key is the address; a part of memory that is an object of its own
    CT_KINDS_END,
    // what a slot can hold besides objects
    CT_KIND_SHARED_TRAITS = CT_KINDS_END, // a struct ct_traits, found by what it says
    CT_KIND_OWN_TRAITS,                   // a struct ct_traits that belongs to one object
    CT_KIND_TENTATIVE, // an object that was given back by a call that may yet turn out to have failed
};

#define CT_NO_DEVICE (-1)
#define CT_MAX_DEVICES 64

// The place of a device in tables that have one more, for what is on none that is known.
CT_HOT int ct_device_to_index(int device) {
    return device >= 0 && device < CT_MAX_DEVICES ? device : CT_MAX_DEVICES;
}

// The device as objects keep it.
CT_HOT int ct_device_or_none(int device) {
    return device >= 0 && device < CT_MAX_DEVICES ? device : CT_NO_DEVICE;
}

struct ct_object {
    uint64_t key; // of a free slot: the next free one
    uint64_t bytes;
    uint64_t t_ns;
    uint32_t stack;
    uint32_t origin;    // slot of its struct ct_traits
    uint32_t event_low; // number of the event that made it: ct_object_event()
    uint16_t event_high : 15;
    uint16_t segment : 1; // ADDRESS, MAPPING: it has held a block
    uint8_t kind;
    int8_t device; // or CT_NO_DEVICE
};

// What objects have in common; objects with references, mappings or a link of their own have their own.
struct ct_traits {
    uint64_t context;
    uint64_t
        link; // MAPPING: handle; POOL: reserved bytes; ADDRESS, BLOCK: its pool; TOTAL: how many
    uint32_t thread, api, flags;
    uint32_t refs; // HANDLE, IPC; of a SHARED one: the objects that have it
    uint32_t maps; // HANDLE
    uint16_t space;
    uint8_t kind;
    uint8_t reserved;
};

union ct_slot {
    struct ct_object object;
    struct ct_traits origin;
};
_Static_assert(sizeof(union ct_slot) == 40, "the bound on memory counts on it");
_Static_assert(offsetof(struct ct_object, kind) == offsetof(struct ct_traits, kind),
               "a slot says what it holds");

// A cache line of the index: 12 entries, each with 7 bits of the key's hash. An entry that does not fit lies in
// the next line that has room, and each full line before it has counted it in `passed`.
#define CT_SLOT_INDEX_LINE_ENTRIES 12u
struct ct_slot_index_line {
    uint8_t tag[CT_SLOT_INDEX_LINE_ENTRIES]; // 0: free
    uint16_t passed;              // stays at UINT16_MAX
    uint16_t reserved;
    uint32_t slot[CT_SLOT_INDEX_LINE_ENTRIES];
};
_Static_assert(sizeof(struct ct_slot_index_line) == 64, "one cache line");

#define CT_SLOT_INDEX_PARTS 32u
struct ct_slot_index_part {
    struct ct_slot_index_line *lines;
    uint32_t capacity; // lines, a power of two
    uint32_t used;     // entries
};

// Totals of a device. live_* counts addresses from allocation calls (device and managed), arrays
// and VMM objects that are not given back; never mappings, reservations, blocks or host memory.
struct ct_live_device {
    uint64_t live_bytes, live_allocations;
    uint64_t managed_bytes; // part of live_bytes; where it resides is not known
    uint64_t pooled_bytes;  // part of live_bytes: stream-ordered, drawn from pools
    uint64_t pool_bytes;    // held by pools: the larger of handed out and reserved, over all pools
    uint64_t block_bytes, blocks; // handed out by PyTorch: the sum of what is alive ...
    uint64_t reported_allocated, reported_reserved; // ... and its own totals, as last stated, ...
    uint64_t stated;                            // ... if it has stated any: 1
};

#define CT_SLAB_SLOTS 4096u
#define CT_RECENT_TRAITS 16u
#define CT_RECENT_POOLS 8u
#define CT_NO_SLOT UINT32_MAX
#define CT_SEGMENT_PAGE \
    (UINT64_C(2) << 20) // what the driver's memory begins at multiples of, where it is as large
#define CT_SEGMENT_LEAF_BYTES (UINT64_C(8) << 30) // of addresses that a leaf tells of
#define CT_SEGMENT_LEAVES 256u
#define CT_SEGMENT_TRIES 8u
#define CT_SEGMENT_MAX_PAGES (UINT64_C(1) << 19) // pages of a block: 1 TiB

// What a thread has given back last, if it lies aside.
struct ct_tentative {
    uint64_t freed_ns; // time of the give-back; 0: nothing
    uint32_t thread, slot;
    uint8_t kind;   // of the object
    uint8_t shared; // another thread has given back the same object
};

struct ct_live {
    union ct_slot **segment;
    uint32_t segments, segment_room;
    uint32_t slots; // that were ever used; behind them nothing is written yet
    uint32_t free_slot;
    struct ct_slot_index_part part[CT_SLOT_INDEX_PARTS];
    // Origins of addresses that were looked for lately. One that ends is forgotten here.
    struct ct_recent_traits {
        struct ct_match like;
        struct ct_traits *origin;
        uint32_t slot;
    } recent[CT_RECENT_TRAITS];
    uint32_t recent_pool[CT_RECENT_POOLS]; // slots of pools, unless they hold something else by now
    uint32_t of_kind[CT_KINDS_END];        // objects
    // Memory: for new_bytes (old is NULL then), aligned to 64 and not necessarily zeroed; or new_bytes 0 gives `old` back.
    // Returns NULL when there is none; the state then goes on without the object (`overflow`).
    void *(*resize)(void *user, void *old, size_t old_bytes, size_t new_bytes);
    // Told of everything that joins (+1) or leaves (-1) the live_* totals. May be NULL.
    void (*changed)(void *user, const struct ct_object *object, int sign);
    // Told of every address that joins or leaves, whether or not it counts in the totals. May be NULL.
    void (*placed)(void *user, const struct ct_object *object, const struct ct_traits *from,
                   int sign);
    void *user;
    // Told of every block, and of what blocks lie in: addresses, mappings and reservations. May be NULL.
    void (*tiled)(void *tiled_user, const struct ct_object *object, const struct ct_traits *from,
                  int sign);
    void *tiled_user;
    struct ct_live_device device[CT_MAX_DEVICES + 1]; // the last one: device unknown
    uint64_t host_bytes;                              // page-locked by allocation calls
    uint64_t unknown_frees, replaced, overflow;
    uint64_t unknown_blocks; // that were given back
    // What is known of pages that hold blocks, CT_PAGE_* of each.
    struct ct_live_segment_leaf {
        uint64_t number; // address / CT_SEGMENT_LEAF_BYTES
        uint8_t *page;
    } held[CT_SEGMENT_LEAVES];
    int holds;        // there has been a block
    int partial;      // a part of the state is still to be restored: unknown frees are no surprise
    int next_is_freed; // the object that is restored next has been given back
    // A table that the caller lends (zeroed), of as many threads as may be giving back at once, a power of two; 0: nothing is
    // set aside.
    struct ct_tentative *aside;
    uint32_t asides, tentative_used;
};

static inline void ct_live_init(struct ct_live *l, void *(*resize)(void *, void *, size_t, size_t),
                                void *user) {
    memset(l, 0, sizeof *l);
    l->resize = resize;
    l->user = user;
    l->free_slot = CT_NO_SLOT;
}

// Gives back the memory of the objects; totals stay. Only ct_live_init makes the state usable again.
static inline void ct_live_release(struct ct_live *l) {
    for (unsigned i = 0; i < CT_SLOT_INDEX_PARTS; i++) {
        struct ct_slot_index_part *p = &l->part[i];
        if (p->lines)
            l->resize(l->user, p->lines, p->capacity * sizeof *p->lines, 0);
        *p = (struct ct_slot_index_part){NULL, 0, 0};
    }
    for (uint32_t i = 0; i < l->segments; i++)
        l->resize(l->user, l->segment[i], CT_SLAB_SLOTS * sizeof **l->segment, 0);
    if (l->segment)
        l->resize(l->user, l->segment, l->segment_room * sizeof *l->segment, 0);
    for (unsigned i = 0; i < CT_SEGMENT_LEAVES; i++)
        if (l->held[i].page)
            l->resize(l->user, l->held[i].page, CT_SEGMENT_LEAF_BYTES / CT_SEGMENT_PAGE, 0);
    memset(l->held, 0, sizeof l->held);
    l->holds = 0;
    l->segment = NULL;
    l->segments = l->segment_room = l->slots = 0;
    l->free_slot = CT_NO_SLOT;
}

CT_HOT struct ct_live_device *ct_live_device(struct ct_live *l, int device) {
    return &l->device[ct_device_to_index(device)];
}

// Bytes of the device that this process is known to hold. Managed memory is left out: it migrates.
static inline uint64_t ct_live_tracked(const struct ct_live_device *d) {
    return d->live_bytes - d->managed_bytes - d->pooled_bytes + d->pool_bytes;
}

// ---- slots ----------------------------------------------------------------------------------

CT_HOT union ct_slot *ct_live_slot(const struct ct_live *l, uint32_t slot) {
    return &l->segment[slot / CT_SLAB_SLOTS][slot % CT_SLAB_SLOTS];
}

// All objects: for (slot = 0; slot < ct_live_slot_count(l); slot++) if ((o = ct_live_object_at(l, slot))) ...
// An object keeps its slot; what is made meanwhile may lie before or behind.
static inline uint32_t ct_live_slot_count(const struct ct_live *l) {
    return l->slots;
}

static inline struct ct_object *ct_live_object_at(const struct ct_live *l, uint32_t slot) {
    struct ct_object *o = &ct_live_slot(l, slot)->object;
    return o->kind != CT_KIND_NONE && o->kind < CT_KINDS_END ? o : NULL;
}

CT_HOT struct ct_traits *ct_live_traits(const struct ct_live *l, const struct ct_object *o) {
    return &ct_live_slot(l, o->origin)->origin;
}

CT_HOT uint64_t ct_object_event(const struct ct_object *o) {
    return (uint64_t)o->event_high << 32 | o->event_low;
}

CT_COLD int ct_live_add_slab(struct ct_live *l) {
    if (l->segments == CT_NO_SLOT / CT_SLAB_SLOTS)
        return -1;
    if (l->segments == l->segment_room) {
        const uint32_t room = l->segment_room ? l->segment_room * 2 : 64;
        union ct_slot **more = (union ct_slot **)l->resize(l->user, NULL, 0, room * sizeof *more);
        if (!more)
            return -1;
        if (l->segment) {
            memcpy(more, l->segment, l->segments * sizeof *more);
            l->resize(l->user, l->segment, l->segment_room * sizeof *more, 0);
        }
        l->segment = more;
        l->segment_room = room;
    }
    union ct_slot *made =
        (union ct_slot *)l->resize(l->user, NULL, 0, CT_SLAB_SLOTS * sizeof *made);
    if (!made)
        return -1;
    l->segment[l->segments++] = made;
    return 0;
}

// A slot whose content is zero but for its kind, or CT_NO_SLOT.
CT_HOT uint32_t ct_live_alloc_slot(struct ct_live *l, unsigned kind) {
    uint32_t slot = l->free_slot;
    if (slot != CT_NO_SLOT)
        l->free_slot = (uint32_t)ct_live_slot(l, slot)->object.key;
    else if (l->slots < l->segments * CT_SLAB_SLOTS || !ct_live_add_slab(l))
        slot = l->slots++;
    else
        return CT_NO_SLOT;
    union ct_slot *s = ct_live_slot(l, slot);
    memset(s, 0, sizeof *s);
    s->object.kind = (uint8_t)kind;
    return slot;
}

CT_HOT void ct_live_free_slot(struct ct_live *l, uint32_t slot) {
    union ct_slot *s = ct_live_slot(l, slot);
    s->object.kind = CT_KIND_NONE;
    s->object.key = l->free_slot;
    l->free_slot = slot;
}

// ---- the index ------------------------------------------------------------------------------

// Where to look for an entry: its part by the upper bits of the hash, its first line by those behind them.
CT_HOT uint64_t ct_slot_index_hash(uint64_t key, unsigned kind) {
    uint64_t h = (key ^ (uint64_t)kind << 56) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

static inline uint64_t ct_slot_index_hash_traits(const struct ct_traits *o) {
    const uint64_t a = (uint64_t)o->thread << 32 | o->api, b = (uint64_t)o->flags << 16 | o->space;
    return ct_slot_index_hash(ct_slot_index_hash(o->context ^ a, 1) ^ ct_slot_index_hash(o->link ^ b << 8, 2),
                        CT_KIND_SHARED_TRAITS);
}

CT_HOT struct ct_slot_index_part *ct_slot_index_part(struct ct_live *l, uint64_t hash) {
    return &l->part[hash >> 59];
}

CT_HOT uint32_t ct_slot_index_home(const struct ct_slot_index_part *p, uint64_t hash) {
    return (uint32_t)(hash >> 8) & (p->capacity - 1);
}

CT_HOT uint8_t ct_slot_index_tag(uint64_t hash) {
    return (uint8_t)(hash | 0x80);
}

// A bit for each entry of the line with that tag; where there are no such instructions, now and then for others above one.
CT_HOT unsigned ct_slot_index_match(const struct ct_slot_index_line *line, uint8_t tag) {
#ifdef __SSE2__
    const __m128i tags = _mm_load_si128((const __m128i *)(const void *)line);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) &
           ((1u << CT_SLOT_INDEX_LINE_ENTRIES) - 1);
#else
    const uint64_t ones = UINT64_C(0x0101010101010101), gather = UINT64_C(0x0102040810204080);
    uint64_t low, high = 0;
    memcpy(&low, line->tag, 8);
    memcpy(&high, line->tag + 8, 4);
    low ^= tag * ones;
    high ^= tag * ones;
    low = (low - ones) & ~low & ones << 7;
    high = (high - ones) & ~high & (ones << 7 & UINT32_MAX);
    return (unsigned)((low >> 7) * gather >> 56 | ((high >> 7) * gather >> 56) << 8);
#endif
}

CT_HOT void ct_slot_index_insert(struct ct_slot_index_part *p, uint64_t hash, uint32_t slot) {
    for (uint32_t i = ct_slot_index_home(p, hash);; i = (i + 1) & (p->capacity - 1)) {
        struct ct_slot_index_line *line = &p->lines[i];
        const unsigned room = ct_slot_index_match(line, 0);
        if (room) {
            const int at = __builtin_ctz(room);
            line->tag[at] = ct_slot_index_tag(hash);
            line->slot[at] = slot;
            p->used++;
            return;
        }
        if (line->passed != UINT16_MAX)
            line->passed++;
    }
}

// What a look-up has found.
struct ct_found {
    union ct_slot *what;  // NULL: nothing
    struct ct_slot_index_line *line; // where its entry is
    uint64_t hash;
    uint32_t at, slot;
};

// Takes the entry out.
CT_HOT void ct_slot_index_erase(struct ct_live *l, const struct ct_found *f) {
    struct ct_slot_index_part *p = ct_slot_index_part(l, f->hash);
    struct ct_slot_index_line *line = &p->lines[ct_slot_index_home(p, f->hash)];
    while (line != f->line) {
        if (line->passed != UINT16_MAX)
            line->passed--;
        line = line + 1 == p->lines + p->capacity ? p->lines : line + 1;
    }
    line->tag[f->at] = 0;
    p->used--;
}

static inline uint64_t ct_slot_index_hash_slot(const union ct_slot *s) {
    return s->object.kind == CT_KIND_SHARED_TRAITS ? ct_slot_index_hash_traits(&s->origin)
                                            : ct_slot_index_hash(s->object.key, s->object.kind);
}

CT_COLD int ct_slot_index_grow(struct ct_live *l, struct ct_slot_index_part *p) {
    struct ct_slot_index_part next = {NULL, p->capacity ? p->capacity * 2 : 64, 0};
    if (!next.capacity)
        return -1;
    next.lines = (struct ct_slot_index_line *)l->resize(l->user, NULL, 0, next.capacity * sizeof *next.lines);
    if (!next.lines)
        return -1;
    memset(next.lines, 0, next.capacity * sizeof *next.lines);
    for (uint32_t i = 0; i < p->capacity; i++)
        for (unsigned at = 0; at < CT_SLOT_INDEX_LINE_ENTRIES; at++)
            if (p->lines[i].tag[at]) {
                const uint32_t slot = p->lines[i].slot[at];
                ct_slot_index_insert(&next, ct_slot_index_hash_slot(ct_live_slot(l, slot)), slot);
            }
    if (p->lines)
        l->resize(l->user, p->lines, p->capacity * sizeof *p->lines, 0);
    *p = next;
    return 0;
}

// Room for one more entry; three quarters full at most, and fuller only where memory is refused.
CT_HOT int ct_slot_index_reserve(struct ct_live *l, struct ct_slot_index_part *p) {
    if ((uint64_t)p->used + 1 <= (uint64_t)p->capacity * 9)
        return 0;
    return ct_slot_index_grow(l, p) && (uint64_t)p->used + 1 >= (uint64_t)p->capacity * CT_SLOT_INDEX_LINE_ENTRIES
               ? -1
               : 0;
}

// Looks for what `is` says yes to.
CT_HOT struct ct_found ct_slot_index_find(const struct ct_live *l, uint64_t hash,
                                     int (*is)(const union ct_slot *slot, const void *wanted),
                                     const void *wanted) {
    const struct ct_slot_index_part *p = &l->part[hash >> 59];
    struct ct_found f = {NULL, NULL, hash, 0, CT_NO_SLOT};
    if (!p->capacity)
        return f;
    for (uint32_t i = ct_slot_index_home(p, hash), n = 0; n < p->capacity;
         i = (i + 1) & (p->capacity - 1), n++) {
        f.line = &p->lines[i];
        for (unsigned m = ct_slot_index_match(f.line, ct_slot_index_tag(hash)); m; m &= m - 1) {
            f.at = (uint32_t)__builtin_ctz(m);
            f.slot = f.line->slot[f.at];
            f.what = ct_live_slot(l, f.slot);
            if (is(f.what, wanted))
                return f;
        }
        if (!f.line->passed)
            break;
    }
    f.what = NULL;
    return f;
}

struct ct_slot_index_key {
    uint64_t key;
    unsigned kind;
};

CT_HOT int ct_slot_index_is_object(const union ct_slot *slot, const void *wanted) {
    const struct ct_slot_index_key *w = (const struct ct_slot_index_key *)wanted;
    return slot->object.key == w->key && slot->object.kind == w->kind;
}

CT_HOT struct ct_found ct_slot_index_lookup_hashed(const struct ct_live *l, unsigned kind, uint64_t key,
                                        uint64_t hash) {
    const struct ct_slot_index_key wanted = {key, kind};
    return ct_slot_index_find(l, hash, ct_slot_index_is_object, &wanted);
}

CT_HOT struct ct_object *ct_found_object(const struct ct_found *f) {
    return f->what ? &f->what->object : NULL;
}

CT_COLD struct ct_found ct_slot_index_lookup(const struct ct_live *l, unsigned kind, uint64_t key) {
    return ct_slot_index_lookup_hashed(l, kind, key, ct_slot_index_hash(key, kind));
}

static inline struct ct_object *ct_live_find(const struct ct_live *l, unsigned kind, uint64_t key) {
    const struct ct_found f = ct_slot_index_lookup(l, kind, key);
    return ct_found_object(&f);
}

CT_HOT int ct_op_is_block(uint32_t op) {
    return op - CT_OP_BLOCK_ALLOC <= CT_OP_BLOCK_FREE - CT_OP_BLOCK_ALLOC;
}

// Where most events look into the index: by their address, if they have one.
CT_HOT uint64_t ct_slot_index_hash_event(const struct ct_event *e) {
    return CT_HAS(e, ptr)
               ? ct_slot_index_hash(e->ptr, ct_op_is_block(e->op) ? CT_KIND_BLOCK : CT_KIND_ADDRESS)
               : 0;
}

// For a batch of events: fetches what ct_live_apply_at will look at. Call ct_slot_index_prefetch_line some eight events ahead, and
// ct_slot_index_prefetch_slots with the hash that it returned some four events ahead.
CT_HOT uint64_t ct_slot_index_prefetch_line(const struct ct_live *l, const struct ct_event *e) {
    const uint64_t hash = ct_slot_index_hash_event(e);
    const struct ct_slot_index_part *p = &l->part[hash >> 59];
    if (hash && p->capacity)
        __builtin_prefetch(&p->lines[ct_slot_index_home(p, hash)]);
    return hash;
}

CT_HOT void ct_slot_index_prefetch_slots(const struct ct_live *l, uint64_t hash) {
    const struct ct_slot_index_part *p = &l->part[hash >> 59];
    // gcc 12 takes a function that does nothing but fetch for one that does nothing, and drops its calls.
    __asm__ volatile("");
    if (!hash || !p->capacity)
        return;
    const struct ct_slot_index_line *line = &p->lines[ct_slot_index_home(p, hash)];
    for (unsigned m = ct_slot_index_match(line, ct_slot_index_tag(hash)); m; m &= m - 1) {
        const union ct_slot *slot = ct_live_slot(l, line->slot[__builtin_ctz(m)]);
        __builtin_prefetch(slot);
        __builtin_prefetch((const char *)(slot + 1) - 1); // half of them lie in two lines
    }
}

// ---- what objects have in common ------------------------------------------------------------

static inline int ct_traits_equal(const struct ct_traits *a, const struct ct_traits *b) {
    return a->context == b->context && a->link == b->link && a->thread == b->thread &&
           a->api == b->api && a->flags == b->flags && a->space == b->space;
}

// What it is made of, of an address or a block.
#define CT_TRAITS_FIELDS \
    (CT_BIT(context) | CT_BIT(pool) | CT_BIT(thread) | CT_BIT(api) | CT_BIT(flags) | CT_BIT(space))

static inline struct ct_traits ct_traits_from_event(const struct ct_event *e, unsigned kind) {
    struct ct_traits o = {0};
    o.context = CT_HAS(e, context) ? e->context : 0;
    if (kind == CT_KIND_ADDRESS || kind == CT_KIND_BLOCK)
        o.link = CT_HAS(e, pool) ? e->pool : 0;
    else if (kind == CT_KIND_SITE_SUM)
        o.link = CT_HAS(e, count) ? e->count : 1;
    o.thread = CT_HAS(e, thread) ? e->thread : 0;
    o.api = CT_HAS(e, api) ? e->api : 0;
    o.flags = CT_HAS(e, flags) ? e->flags : 0;
    o.space = (uint16_t)(CT_HAS(e, space) ? e->space : CT_SPACE_UNKNOWN);
    return o;
}

static inline int ct_traits_are_in_slot(const union ct_slot *slot, const void *like) {
    return slot->origin.kind == CT_KIND_SHARED_TRAITS &&
           ct_traits_equal(&slot->origin, (const struct ct_traits *)like);
}

// The slot of an origin that says the same, made if there is none; CT_NO_SLOT without memory.
CT_COLD uint32_t ct_traits_intern(struct ct_live *l, const struct ct_traits *like) {
    const uint64_t hash = ct_slot_index_hash_traits(like);
    const struct ct_found f = ct_slot_index_find(l, hash, ct_traits_are_in_slot, like);
    uint32_t slot = f.slot;
    if (!f.what) {
        struct ct_slot_index_part *p = ct_slot_index_part(l, hash);
        if (ct_slot_index_reserve(l, p) || (slot = ct_live_alloc_slot(l, CT_KIND_SHARED_TRAITS)) == CT_NO_SLOT)
            return CT_NO_SLOT;
        struct ct_traits *o = &ct_live_slot(l, slot)->origin;
        *o = *like;
        o->kind = CT_KIND_SHARED_TRAITS;
        ct_slot_index_insert(p, hash, slot);
    }
    return slot;
}

CT_COLD void ct_traits_destroy(struct ct_live *l, uint32_t slot) {
    const struct ct_traits *o = &ct_live_slot(l, slot)->origin;
    if (o->kind == CT_KIND_SHARED_TRAITS) {
        const struct ct_found f = ct_slot_index_find(l, ct_slot_index_hash_traits(o), ct_traits_are_in_slot, o);
        ct_slot_index_erase(l, &f);
        for (unsigned i = 0; i < CT_RECENT_TRAITS; i++)
            if (l->recent[i].slot == slot)
                l->recent[i].like.present = 0;
    }
    ct_live_free_slot(l, slot);
}

CT_HOT void ct_traits_release(struct ct_live *l, uint32_t slot) {
    struct ct_traits *o = &ct_live_slot(l, slot)->origin;
    if (o->kind != CT_KIND_SHARED_TRAITS || !--o->refs)
        ct_traits_destroy(l, slot);
}

static inline int ct_kind_has_own_traits(unsigned kind) {
    return kind == CT_KIND_HANDLE || kind == CT_KIND_MAPPING || kind == CT_KIND_IPC ||
           kind == CT_KIND_POOL || kind == CT_KIND_SITE_SUM;
}

// A slot with what an object has in common with others, who share it, or one of its own; CT_NO_SLOT without memory.
CT_COLD uint32_t ct_traits_acquire(struct ct_live *l, unsigned kind,
                                     const struct ct_traits *like) {
    const int own = ct_kind_has_own_traits(kind);
    const uint32_t slot = own ? ct_live_alloc_slot(l, CT_KIND_OWN_TRAITS) : ct_traits_intern(l, like);
    if (slot == CT_NO_SLOT)
        return slot;
    struct ct_traits *o = &ct_live_slot(l, slot)->origin;
    if (own) {
        *o = *like;
        o->kind = CT_KIND_OWN_TRAITS;
    } else {
        o->refs++;
    }
    return slot;
}

// The same for an address that an event makes.
CT_COLD uint32_t ct_traits_acquire_new(struct ct_live *l, const struct ct_event *e,
                                    struct ct_recent_traits *recent) {
    const struct ct_traits from = ct_traits_from_event(e, CT_KIND_ADDRESS);
    const uint32_t slot = ct_traits_acquire(l, CT_KIND_ADDRESS, &from);
    if (slot == CT_NO_SLOT)
        return slot;
    ct_match_set(&recent->like, e, CT_TRAITS_FIELDS, CT_TRAITS_FIELDS);
    recent->origin = &ct_live_slot(l, slot)->origin;
    return recent->slot = slot;
}

// The same for any object that an event makes: mostly an address or a block like one before. (Both have theirs in common.)
CT_HOT uint32_t ct_traits_acquire_for_event(struct ct_live *l, unsigned kind, const struct ct_event *e) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
    struct ct_recent_traits *recent = &l->recent[thread % CT_RECENT_TRAITS];
    if (kind != CT_KIND_ADDRESS && kind != CT_KIND_BLOCK) {
        const struct ct_traits from = ct_traits_from_event(e, kind);
        return ct_traits_acquire(l, kind, &from);
    }
    if (!ct_match_test(&recent->like, e, CT_TRAITS_FIELDS))
        return ct_traits_acquire_new(l, e, recent);
    recent->origin->refs++;
    return recent->slot;
}

// ---- objects --------------------------------------------------------------------------------

enum { CT_FLAGS_WITHOUT_MEMORY = CT_FLAG_FOREIGN | CT_FLAG_MULTICAST | CT_FLAG_DEFERRED };

// Whether an object counts in the live_* totals of its device, or else in host_bytes.
CT_HOT int ct_kind_is_memory(unsigned kind) {
    return kind == CT_KIND_ADDRESS || kind == CT_KIND_ARRAY || kind == CT_KIND_HANDLE ||
           kind == CT_KIND_SITE_SUM;
}

static inline int ct_object_is_counted(const struct ct_live *l, const struct ct_object *o) {
    const struct ct_traits *from = ct_live_traits(l, o);
    return ct_kind_is_memory(o->kind) && from->space != CT_SPACE_HOST &&
           !(from->flags & CT_FLAGS_WITHOUT_MEMORY);
}

static inline int ct_object_is_host(const struct ct_live *l, const struct ct_object *o) {
    return ct_kind_is_memory(o->kind) && ct_live_traits(l, o)->space == CT_SPACE_HOST;
}

// Whether an object's address is one of its device's memory (not host, not managed).
CT_HOT int ct_traits_are_on_device(const struct ct_traits *from) {
    return from->space != CT_SPACE_HOST && from->space != CT_SPACE_MANAGED;
}

static inline int ct_object_is_on_device(const struct ct_live *l, const struct ct_object *o) {
    return ct_traits_are_on_device(ct_live_traits(l, o));
}

// How many allocations an object stands for.
static inline uint64_t ct_object_allocations(const struct ct_live *l, const struct ct_object *o) {
    return o->kind == CT_KIND_SITE_SUM ? ct_live_traits(l, o)->link : 1;
}

// Adds to (+1) or takes from (-1) the totals what the object counts for. Its kind is mostly known beforehand; `from` is its
// origin.
CT_HOT void ct_object_count(struct ct_live *l, const struct ct_object *o, unsigned kind,
                          const struct ct_traits *from, int sign) {
    const uint64_t bytes = sign < 0 ? 0 - o->bytes : o->bytes;
    if (l->address_changed && kind == CT_KIND_ADDRESS)
        l->address_changed(l->user, o, from, sign);
    if (l->region_changed && (kind == CT_KIND_BLOCK || kind == CT_KIND_ADDRESS || kind == CT_KIND_MAPPING ||
                     kind == CT_KIND_RESERVED))
        l->region_changed(l->region_user, o, from, sign);
    if (kind == CT_KIND_BLOCK) {
        struct ct_live_device *d = ct_live_device(l, o->device);
        d->block_bytes += bytes;
        d->blocks += (uint64_t)(int64_t)sign;
    }
    if (!ct_kind_is_memory(kind))
        return;
    if (from->space == CT_SPACE_HOST) {
        l->host_bytes += bytes;
        return;
    }
    if (from->flags & CT_FLAGS_WITHOUT_MEMORY)
        return;
    struct ct_live_device *d = ct_live_device(l, o->device);
    const uint64_t number = kind == CT_KIND_SITE_SUM ? from->link : 1;
    d->live_bytes += bytes;
    d->live_allocations += sign < 0 ? 0 - number : number;
    if (from->space == CT_SPACE_MANAGED)
        d->managed_bytes += bytes;
    else if (from->flags & CT_FLAG_ASYNC)
        d->pooled_bytes += bytes;
    if (l->total_changed)
        l->total_changed(l->user, o, sign);
}

static inline uint64_t ct_live_pool_held_bytes(const struct ct_live *l, const struct ct_object *pool) {
    const uint64_t reserved = ct_live_traits(l, pool)->link;
    return pool->bytes > reserved ? pool->bytes : reserved;
}

// An object without properties, with what it has in common with others. NULL without memory.
CT_HOT struct ct_object *ct_object_insert(struct ct_live *l, unsigned kind, uint64_t key,
                                        uint64_t hash, uint32_t origin) {
    struct ct_slot_index_part *p = ct_slot_index_part(l, hash);
    const uint32_t slot = origin == CT_NO_SLOT ? origin : ct_live_alloc_slot(l, kind);
    if (slot == CT_NO_SLOT || ct_slot_index_reserve(l, p)) {
        if (slot != CT_NO_SLOT)
            ct_live_free_slot(l, slot);
        if (origin != CT_NO_SLOT)
            ct_traits_release(l, origin);
        l->overflow++;
        return NULL;
    }
    struct ct_object *o = &ct_live_slot(l, slot)->object;
    o->key = key;
    o->origin = origin;
    ct_slot_index_insert(p, hash, slot);
    l->of_kind[kind]++;
    return o;
}

CT_COLD struct ct_object *ct_live_pool_create(struct ct_live *l, uint64_t pool, int device) {
    const struct ct_traits nothing = {0};
    struct ct_object *o = ct_object_insert(l, CT_KIND_POOL, pool, ct_slot_index_hash(pool, CT_KIND_POOL),
                                         ct_traits_acquire(l, CT_KIND_POOL, &nothing));
    if (o)
        o->device = (int8_t)ct_device_or_none(device);
    return o;
}

// The pool's own object; made when first heard of, because default pools are never created.
static inline struct ct_object *ct_live_pool_get(struct ct_live *l, uint64_t pool, int device) {
    uint32_t *recent = &l->recent_pool[(pool ^ pool >> 9) % CT_RECENT_POOLS];
    struct ct_object *o = *recent < l->slots ? &ct_live_slot(l, *recent)->object : NULL;
    if (o && o->kind == CT_KIND_POOL && o->key == pool)
        return o;
    const struct ct_found f = ct_slot_index_lookup(l, CT_KIND_POOL, pool);
    if (!f.what)
        return ct_live_pool_create(l, pool, device);
    *recent = f.slot;
    return &f.what->object;
}

// What the pool holds of its device, before (-1) and after (+1) a change.
static inline void ct_live_pool_count(struct ct_live *l, const struct ct_object *pool, int sign) {
    const uint64_t holds = ct_live_pool_held_bytes(l, pool);
    ct_live_device(l, pool->device)->pool_bytes += sign < 0 ? 0 - holds : holds;
}

static inline uint64_t ct_live_pool_key(const struct ct_live *l, const struct ct_object *o) {
    const uint64_t pool = ct_live_traits(l, o)->link;
    // Without a pool the device's default pool is meant; its key is one that no pointer has.
    return pool ? pool : (uint64_t)(o->device + 1);
}

static inline void ct_live_pool_draw(struct ct_live *l, const struct ct_object *member, int sign) {
    struct ct_object *pool = ct_live_pool_get(l, ct_live_pool_key(l, member), member->device);
    if (!pool)
        return;
    ct_live_pool_count(l, pool, -1);
    pool->bytes += sign < 0 ? 0 - member->bytes : member->bytes;
    ct_live_pool_count(l, pool, +1);
}

// An address that joins (+1) or leaves (-1) the totals.
CT_HOT void ct_object_count_address(struct ct_live *l, const struct ct_object *o,
                                  const struct ct_traits *from, int sign) {
    ct_object_count(l, o, CT_KIND_ADDRESS, from, sign);
    if (from->flags & CT_FLAG_ASYNC && from->space == CT_SPACE_DEVICE)
        ct_live_pool_draw(l, o, sign);
}

// Takes an object out of the index and the totals.
CT_HOT void ct_object_withdraw(struct ct_live *l, const struct ct_found *f) {
    const struct ct_object *o = &f->what->object;
    const struct ct_traits *from = ct_live_traits(l, o);
    ct_slot_index_erase(l, f); // first: what follows may move entries
    l->of_kind[o->kind]--;
    if (o->kind == CT_KIND_ADDRESS) {
        ct_object_count_address(l, o, from, -1);
        return;
    }
    ct_object_count(l, o, o->kind, from, -1);
    if (o->kind == CT_KIND_POOL)
        ct_live_pool_count(l, o, -1);
}

CT_HOT void ct_object_discard(struct ct_live *l, uint32_t slot) {
    ct_traits_release(l, ct_live_slot(l, slot)->object.origin);
    ct_live_free_slot(l, slot);
}

CT_COLD void ct_object_remove_found(struct ct_live *l, const struct ct_found *f) {
    ct_object_withdraw(l, f);
    ct_object_discard(l, f->slot);
}

static inline void ct_object_remove(struct ct_live *l, const struct ct_object *o) {
    const struct ct_found f = ct_slot_index_lookup(l, o->kind, o->key);
    if (f.what)
        ct_object_remove_found(l, &f);
}

// ---- segments -----------------------------------------------------------------------------------
// A segment is memory of the driver that has held a block. PyTorch hands out a segment from its start on, and grows one by
// mappings at multiples of 2 MiB, by no more than the block needs that it grows for: so what holds a block begins where its
// first block does, or at a multiple of 2 MiB in it. That is looked for once for each page of 2 MiB.

enum {
    CT_SEGMENT_PAGE_DONE = 1, // what begins at the page, if anything does, is a segment
    CT_SEGMENT_PAGE_UNALIGNED = 2,  // something begins behind its start
};

CT_HOT uint8_t *ct_live_segment_page(const struct ct_live *l, uint64_t address) {
    const uint64_t number = address / CT_SEGMENT_LEAF_BYTES;
    for (uint64_t i = number; i < number + CT_SEGMENT_TRIES; i++) {
        const struct ct_live_segment_leaf *h = &l->held[i % CT_SEGMENT_LEAVES];
        if (!h->page)
            return NULL;
        if (h->number == number)
            return &h->page[address % CT_SEGMENT_LEAF_BYTES / CT_SEGMENT_PAGE];
    }
    return NULL;
}

// The same, made if it is not there; NULL without memory or place.
CT_COLD uint8_t *ct_live_segment_add_page(struct ct_live *l, uint64_t address) {
    const uint64_t number = address / CT_SEGMENT_LEAF_BYTES, bytes = CT_SEGMENT_LEAF_BYTES / CT_SEGMENT_PAGE;
    uint8_t *page = ct_live_segment_page(l, address);
    for (uint64_t i = number; i < number + CT_SEGMENT_TRIES && !page; i++) {
        struct ct_live_segment_leaf *h = &l->held[i % CT_SEGMENT_LEAVES];
        if (h->page)
            continue;
        if (!(h->page = (uint8_t *)l->resize(l->user, NULL, 0, bytes)))
            return NULL;
        memset(h->page, 0, bytes);
        h->number = number;
        page = &h->page[address % CT_SEGMENT_LEAF_BYTES / CT_SEGMENT_PAGE];
    }
    return page;
}

// Memory begins there now.
CT_COLD void ct_live_segment_note_start(struct ct_live *l, const struct ct_object *o) {
    uint8_t *page = ct_live_segment_page(l, o->key);
    if (page)
        *page &= (uint8_t)~CT_SEGMENT_PAGE_DONE;
    if (o->key % CT_SEGMENT_PAGE && ct_object_is_on_device(l, o) && (page = ct_live_segment_add_page(l, o->key)))
        *page |= CT_SEGMENT_PAGE_UNALIGNED;
}

// Before the first block, nobody looks for segments.
CT_COLD void ct_live_segment_begin(struct ct_live *l) {
    l->holds = 1;
    for (uint32_t i = 0; i < l->slots; i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (o && (o->kind == CT_KIND_ADDRESS || o->kind == CT_KIND_MAPPING))
            ct_live_segment_note_start(l, o);
    }
}

// What begins at the address is a segment if it reaches up to the block's start. 0: it does not.
static inline int ct_live_segment_mark_at(const struct ct_live *l, uint64_t address, uint64_t start) {
    static const uint8_t kinds[] = {CT_KIND_ADDRESS, CT_KIND_MAPPING};
    int all = 1;
    for (unsigned i = 0; i < sizeof kinds; i++) {
        struct ct_object *o = ct_live_find(l, kinds[i], address);
        if (o && !ct_object_is_on_device(l, o))
            o = NULL; // PyTorch's segments are
        if (o && (address >= start || o->bytes > start - address))
            o->segment = 1;
        all &= !o || o->segment;
    }
    return all;
}

CT_COLD void ct_live_segment_mark_slow(struct ct_live *l, uint64_t start, uint64_t bytes) {
    uint64_t at = start / CT_SEGMENT_PAGE * CT_SEGMENT_PAGE;
    const uint64_t pages = (start - at + bytes - 1) / CT_SEGMENT_PAGE + 1;
    if (!l->holds)
        ct_live_segment_begin(l);
    if (at != start)
        (void)ct_live_segment_mark_at(l, start, start);
    // (No process has more: what a damaged trace calls a block is cut.)
    for (uint64_t n = 0; n < pages && n < CT_SEGMENT_MAX_PAGES; n++, at += CT_SEGMENT_PAGE) {
        uint8_t *page = ct_live_segment_add_page(l, at);
        if (page && *page & CT_SEGMENT_PAGE_DONE)
            continue;
        if (ct_live_segment_mark_at(l, at, start) && page)
            *page |= CT_SEGMENT_PAGE_DONE;
    }
}

// What holds a block is a segment from now on.
CT_HOT void ct_live_segment_mark(struct ct_live *l, uint64_t start, uint64_t bytes) {
    const uint8_t *page = ct_live_segment_page(l, start);
    if (!page || *page != CT_SEGMENT_PAGE_DONE || start % CT_SEGMENT_PAGE + bytes > CT_SEGMENT_PAGE)
        ct_live_segment_mark_slow(l, start, bytes);
}

// An object as an event describes it, replacing one that is still there (its end was missed).
CT_HOT struct ct_object *ct_live_add_hashed(struct ct_live *l, unsigned kind, uint64_t key,
                                        uint64_t hash, const struct ct_event *e, uint64_t number) {
    const struct ct_found there = ct_slot_index_lookup_hashed(l, kind, key, hash);
    if (there.what) {
        ct_object_remove_found(l, &there);
        l->replaced++;
    }
    struct ct_object *o = ct_object_insert(l, kind, key, hash, ct_traits_acquire_for_event(l, kind, e));
    if (!o)
        return NULL;
    o->bytes = CT_HAS(e, bytes) ? e->bytes : 0;
    o->event_low = (uint32_t)number;
    o->event_high = (uint16_t)(number >> 32) & 0x7FFF;
    o->t_ns = e->t_ns;
    o->stack = CT_HAS(e, stack) ? e->stack : 0;
    o->device = (int8_t)(CT_HAS(e, device) ? ct_device_or_none(e->device) : CT_NO_DEVICE);
    if ((kind == CT_KIND_ADDRESS || kind == CT_KIND_MAPPING) && __builtin_expect(l->holds, 0))
        ct_live_segment_note_start(l, o);
    if (kind == CT_KIND_ADDRESS)
        ct_object_count_address(l, o, ct_live_traits(l, o), +1);
    else
        ct_object_count(l, o, kind, ct_live_traits(l, o), +1);
    return o;
}

CT_COLD struct ct_object *ct_live_add(struct ct_live *l, unsigned kind, uint64_t key,
                                      const struct ct_event *e, uint64_t number) {
    return ct_live_add_hashed(l, kind, key, ct_slot_index_hash(key, kind), e, number);
}

// ---- what may come back -----------------------------------------------------------------------
// A give-back is published before its call. Who applies events as they come does not know yet whether the call succeeds:
// the object is set aside, out of the totals and not to be found, but in its slot, until an AMEND says that the call
// failed, or the thread gives back something else. Who knows all AMENDs beforehand (the report) sets nothing aside. What ends
// several objects or a reference (unmap, release, ipc-close, context-destroy) counts as done at once: no program
// was seen in which one of them failed and the process went on.

CT_COLD void ct_tentative_confirm_all(struct ct_live *l, uint32_t slot) {
    for (uint32_t i = 0; i < l->tentative_used; i++)
        if (l->tentative[i].slot == slot)
            l->tentative[i].freed_ns = 0;
}

CT_HOT void ct_tentative_confirm(struct ct_live *l, struct ct_tentative *a) {
    const uint32_t slot = a->slot;
    if (!a->freed_ns)
        return;
    a->freed_ns = 0;
    if (a->shared)
        ct_tentative_confirm_all(l, slot);
    ct_object_discard(l, slot);
}

// Notes that a give-back of an event is about what lies aside in a slot.
CT_HOT void ct_tentative_note(struct ct_live *l, const struct ct_event *e, uint32_t slot, unsigned kind,
                          int shared) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0, at = thread & (l->tentative_room - 1);
    l->tentative[at] = (struct ct_tentative){e->t_ns, thread, slot, (uint8_t)kind, (uint8_t)shared};
    if (at >= l->tentative_used)
        l->tentative_used = at + 1;
}

// The thread that gives back something comes from its last give-back: that one succeeded, unless it was amended.
CT_HOT void ct_tentative_confirm_last(struct ct_live *l, const struct ct_event *e) {
    if (l->tentative_room)
        ct_tentative_confirm(l, &l->tentative[(CT_HAS(e, thread) ? e->thread : 0) & (l->tentative_room - 1)]);
}

CT_HOT void ct_tentative_free(struct ct_live *l, const struct ct_found *f,
                              const struct ct_event *e) {
    struct ct_object *o = &f->what->object;
    if (!l->tentative_room) {
        ct_object_remove_found(l, f);
        return;
    }
    ct_object_withdraw(l, f);
    ct_tentative_note(l, e, f->slot, o->kind, 0);
    o->kind = CT_KIND_TENTATIVE;
}

// Two threads give back the same object: it is alive only if both calls failed. 0: nothing with this key lies aside.
static inline int ct_tentative_free_again(struct ct_live *l, unsigned kind, uint64_t key,
                                     const struct ct_event *e) {
    struct ct_tentative *last = NULL; // older ones were taken again since then
    for (uint32_t i = 0; i < l->tentative_used; i++) {
        struct ct_tentative *a = &l->tentative[i];
        if (a->freed_ns && a->kind == kind && ct_live_slot(l, a->slot)->object.key == key &&
            (!last || a->freed_ns > last->freed_ns))
            last = a;
    }
    if (!last)
        return 0;
    last->shared = 1;
    ct_tentative_note(l, e, last->slot, kind, 1);
    return 1;
}

// The call failed, so the object is alive.
static inline void ct_tentative_undo(struct ct_live *l, const struct ct_tentative *a) {
    struct ct_object *o = &ct_live_slot(l, a->slot)->object;
    const uint64_t hash = ct_slot_index_hash(o->key, a->kind);
    struct ct_slot_index_part *p = ct_slot_index_part(l, hash);
    if (ct_slot_index_lookup(l, a->kind, o->key).what || ct_slot_index_reserve(l, p)) {
        ct_object_discard(l, a->slot); // taken again: it cannot have failed
        return;
    }
    o->kind = a->kind;
    ct_slot_index_insert(p, hash, a->slot);
    l->of_kind[a->kind]++;
    if (l->holds && a->kind == CT_KIND_ADDRESS)
        ct_live_segment_note_start(l, o);
    if (a->kind == CT_KIND_ADDRESS)
        ct_object_count_address(l, o, ct_live_traits(l, o), +1);
    else
        ct_object_count(l, o, a->kind, ct_live_traits(l, o), +1);
}

// What an AMEND says of the thread's last give-back.
static inline void ct_tentative_amend(struct ct_live *l, const struct ct_event *e) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
    struct ct_tentative *a = l->tentative_room ? &l->tentative[thread & (l->tentative_room - 1)] : NULL;
    int others = 0;
    if (!a || !a->freed_ns || a->thread != thread || a->freed_ns != e->amends_ns ||
        !CT_HAS(e, result) || !e->result)
        return;
    const struct ct_tentative was = *a;
    a->freed_ns = 0;
    for (uint32_t i = 0; was.shared && i < l->tentative_used; i++)
        others |= l->tentative[i].freed_ns && l->tentative[i].slot == was.slot;
    if (!others)
        ct_tentative_undo(l, &was);
}

// A VMM object whose last reference and last mapping are gone gives its memory back.
static inline void ct_live_end_if_unreferenced(struct ct_live *l, struct ct_object *o) {
    if (o && o->kind == CT_KIND_HANDLE && !ct_live_traits(l, o)->refs &&
        !ct_live_traits(l, o)->maps)
        ct_object_remove(l, o);
}

static inline void ct_live_unmap_one(struct ct_live *l, struct ct_object *mapping) {
    const uint64_t handle = ct_live_traits(l, mapping)->link;
    ct_object_remove(l, mapping);
    struct ct_object *o = ct_live_find(l, CT_KIND_HANDLE, handle);
    if (o && ct_live_traits(l, o)->maps)
        ct_live_traits(l, o)->maps--;
    ct_live_end_if_unreferenced(l, o);
}

// cuMemUnmap takes a range that may hold several mappings, which usually lie side by side.
static inline void ct_live_unmap(struct ct_live *l, uint64_t start, uint64_t bytes) {
    uint64_t at = start;
    struct ct_object *o;
    while (at - start < bytes && (o = ct_live_find(l, CT_KIND_MAPPING, at))) {
        at += o->bytes ? o->bytes : 1;
        ct_live_unmap_one(l, o);
    }
    if (at - start >= bytes)
        return;
    for (uint32_t i = 0, left = l->of_kind[CT_KIND_MAPPING]; i < l->slots && left; i++)
        if ((o = ct_live_object_at(l, i)) && o->kind == CT_KIND_MAPPING) {
            left--;
            if (o->key - start < bytes)
                ct_live_unmap_one(l, o);
        }
}

CT_COLD struct ct_found ct_live_find_freed_other(const struct ct_live *l, const struct ct_event *e) {
    static const struct ct_found nothing = {NULL, NULL, 0, 0, CT_NO_SLOT};
    const uint64_t ptr = CT_HAS(e, ptr) ? e->ptr : 0, handle = CT_HAS(e, handle) ? e->handle : 0;
    struct ct_found f;
    switch (e->op) {
    case CT_OP_FREE: // takes what any kind of allocation gave out
        if (handle)
            return ct_slot_index_lookup(l, CT_KIND_ARRAY, handle);
        if (!ptr)
            return nothing;
        if ((f = ct_slot_index_lookup(l, CT_KIND_ADDRESS, ptr)).what ||
            (f = ct_slot_index_lookup(l, CT_KIND_GRAPH, ptr)).what)
            return f;
        return ct_slot_index_lookup(l, CT_KIND_MAPPING, ptr);
    case CT_OP_RELEASE:
        return ct_slot_index_lookup(l, CT_KIND_HANDLE, handle);
    case CT_OP_UNMAP:
        return ct_slot_index_lookup(l, CT_KIND_MAPPING, ptr);
    case CT_OP_UNRESERVE:
        return ct_slot_index_lookup(l, CT_KIND_RESERVED, ptr);
    case CT_OP_UNREGISTER:
        return ct_slot_index_lookup(l, CT_KIND_REGISTERED, ptr);
    case CT_OP_IPC_CLOSE:
        return ct_slot_index_lookup(l, CT_KIND_IPC, ptr);
    case CT_OP_GRAPH_FREE:
        return ct_slot_index_lookup(l, CT_KIND_GRAPH, ptr);
    case CT_OP_POOL_TRIM:
    case CT_OP_POOL_DESTROY:
        return CT_HAS(e, pool) ? ct_slot_index_lookup(l, CT_KIND_POOL, e->pool) : nothing;
    default:
        return nothing;
    }
}

// What an event that gives back is about, if that was ever seen. `hash` is the event's. Good until the next event is applied.
CT_HOT struct ct_found ct_live_find_freed(const struct ct_live *l, const struct ct_event *e,
                                     uint64_t hash) {
    struct ct_found f = {NULL, NULL, 0, 0, CT_NO_SLOT};
    if (e->op == CT_OP_ALLOC)
        return f;
    if (e->op == CT_OP_FREE && hash && !CT_HAS(e, handle))
        f = ct_slot_index_lookup_hashed(l, CT_KIND_ADDRESS, e->ptr, hash);
    if (ct_op_is_block(e->op))
        return e->op == CT_OP_BLOCK_FREE && hash ? ct_slot_index_lookup_hashed(l, CT_KIND_BLOCK, e->ptr, hash)
                                                 : f;
    return f.what ? f : ct_live_find_freed_other(l, e);
}

// What is known as a sum only is found by call site; what was drawn from pools has sums of its own.
static inline uint64_t ct_site_sum_key(int device, unsigned space, uint32_t stack, int async) {
    return stack | (uint64_t)(device + 1) << 32 | (uint64_t)space << 40 | (uint64_t)async << 60;
}

// Tells with an event that gives the object back what a reader must know who has it in a sum only.
static inline void ct_site_sum_describe(const struct ct_live *l, const struct ct_object *o,
                                    struct ct_event *e) {
    const struct ct_traits *from = ct_live_traits(l, o);
    CT_SET(e, bytes, o->bytes);
    if (o->stack)
        CT_SET(e, stack, o->stack);
    if (o->device != CT_NO_DEVICE)
        CT_SET(e, device, (int)o->device);
    if (from->space)
        CT_SET(e, space, from->space);
    if (from->flags & CT_FLAG_ASYNC)
        CT_SET(e, pool, ct_live_pool_key(l, o));
}

// The sum that the allocation given back is part of, if the event describes it.
static inline struct ct_object *ct_site_sum_find(const struct ct_live *l,
                                                 const struct ct_event *e) {
    if (!l->of_kind[CT_KIND_SITE_SUM] || !CT_HAS(e, bytes))
        return NULL;
    const int device = CT_HAS(e, device) ? ct_device_or_none(e->device) : CT_NO_DEVICE;
    const unsigned space = (uint16_t)(CT_HAS(e, space) ? e->space : CT_SPACE_UNKNOWN);
    for (int without = 0; without < 2; without++) { // too many call sites are summed without
        const uint32_t stack = CT_HAS(e, stack) && !without ? e->stack : 0;
        struct ct_object *o =
            ct_live_find(l, CT_KIND_SITE_SUM, ct_site_sum_key(device, space, stack, CT_HAS(e, pool)));
        if (o && o->bytes >= e->bytes && ct_live_traits(l, o)->link)
            return o;
    }
    return NULL;
}

static inline void ct_site_sum_subtract(struct ct_live *l, struct ct_object *total,
                                     const struct ct_event *e) {
    struct ct_object *pool = CT_HAS(e, pool) ? ct_live_find(l, CT_KIND_POOL, e->pool) : NULL;
    struct ct_object one = *total;
    one.kind = CT_KIND_ARRAY; // one allocation, of no address
    one.bytes = e->bytes;
    ct_object_count(l, &one, one.kind, ct_live_traits(l, &one), -1);
    total->bytes -= e->bytes;
    if (!--ct_live_traits(l, total)->link)
        ct_object_remove(l, total);
    if (pool && pool->bytes >= e->bytes && CT_HAS(e, space) && e->space == CT_SPACE_DEVICE) {
        ct_live_pool_count(l, pool, -1);
        pool->bytes -= e->bytes;
        ct_live_pool_count(l, pool, +1);
    }
}

// A free of what is no array and no address that is known.
CT_COLD void ct_live_free_other(struct ct_live *l, const struct ct_event *e, struct ct_object *o) {
    const int array = CT_HAS(e, handle) && e->handle;
    struct ct_object *total = NULL;
    if (o && o->kind == CT_KIND_MAPPING)
        ct_live_unmap_one(l, o);
    else if (o) // of a graph (not set aside: its frees are those of the graph's launches)
        ct_object_remove(l, o);
    else if ((total = ct_site_sum_find(l, e)))
        ct_site_sum_subtract(l, total, e);
    else if (!ct_tentative_free_again(l, array ? CT_KIND_ARRAY : CT_KIND_ADDRESS,
                                 array            ? e->handle
                                 : CT_HAS(e, ptr) ? e->ptr
                                                  : 0,
                                 e) &&
             CT_HAS(e, ptr) && e->ptr && !l->partial)
        l->unknown_frees++;
}

// `given` is what it gives back.
CT_HOT void ct_live_free(struct ct_live *l, const struct ct_event *e,
                         const struct ct_found *given) {
    struct ct_object *const o = ct_found_object(given);
    ct_tentative_confirm_last(l, e);
    if (o && (o->kind == CT_KIND_ADDRESS || o->kind == CT_KIND_ARRAY))
        ct_tentative_free(l, given, e);
    else
        ct_live_free_other(l, e, o);
}

static inline int ct_live_is_of_context(const struct ct_live *l, const struct ct_object *o,
                                    unsigned kind, uint64_t context) {
    const struct ct_traits *from = ct_live_traits(l, o);
    return (kind == CT_KIND_ADDRESS || kind == CT_KIND_ARRAY || kind == CT_KIND_REGISTERED) &&
           from->context == context && !(from->flags & CT_FLAG_ASYNC);
}

static inline void ct_live_end_context(struct ct_live *l, uint64_t context) {
    for (uint32_t i = 0; i < l->tentative_used; i++) {
        struct ct_tentative *a = &l->tentative[i];
        if (a->freed_ns &&
            ct_live_is_of_context(l, &ct_live_slot(l, a->slot)->object, a->kind, context))
            ct_tentative_confirm(l, a);
    }
    for (uint32_t i = 0; i < l->slots; i++) {
        struct ct_object *o = ct_live_object_at(l, i);
        if (o && ct_live_is_of_context(l, o, o->kind, context))
            ct_object_remove(l, o);
    }
}

static inline void ct_live_free_key(struct ct_live *l, unsigned kind, uint64_t key,
                                         const struct ct_event *e) {
    const struct ct_found f = ct_slot_index_lookup(l, kind, key);
    ct_tentative_confirm_last(l, e);
    if (f.what)
        ct_tentative_free(l, &f, e);
    else
        (void)ct_tentative_free_again(l, kind, key, e);
}

static inline void ct_live_map(struct ct_live *l, const struct ct_event *e, uint64_t number) {
    if (!CT_HAS(e, ptr) || !e->ptr || !CT_HAS(e, bytes))
        return; // arrays, graphics resources, multicast: nothing by address
    struct ct_object *o = ct_live_find(l, CT_KIND_MAPPING, e->ptr);
    if (o) {
        ct_live_unmap_one(l, o);
        l->replaced++;
    }
    if (!(o = ct_live_add(l, CT_KIND_MAPPING, e->ptr, e, number)))
        return;
    const uint64_t handle = CT_HAS(e, handle) ? e->handle : 0;
    ct_live_traits(l, o)->link = handle;
    if ((o = ct_live_find(l, CT_KIND_HANDLE, handle)))
        ct_live_traits(l, o)->maps++;
}

static inline void ct_live_add_reference(struct ct_live *l, unsigned kind, uint64_t key,
                                 const struct ct_event *e, uint64_t number) {
    struct ct_object *o = ct_live_find(l, kind, key);
    struct ct_traits *own = o ? ct_live_traits(l, o) : NULL;
    if (own && (own->refs || own->maps))
        own->refs++; // opened or imported again: the same key, one more reference
    else if ((o = ct_live_add(l, kind, key, e, number)))
        ct_live_traits(l, o)->refs = 1;
}

static inline void ct_live_drop_reference(struct ct_live *l, unsigned kind, uint64_t key) {
    struct ct_object *o = ct_live_find(l, kind, key);
    if (!o)
        return;
    struct ct_traits *own = ct_live_traits(l, o);
    if (own->refs)
        own->refs--;
    if (kind == CT_KIND_HANDLE)
        ct_live_end_if_unreferenced(l, o);
    else if (!own->refs)
        ct_object_remove(l, o);
}

static inline void ct_live_pool_set_reserved(struct ct_live *l, struct ct_object *pool,
                                         uint64_t bytes) {
    ct_live_pool_count(l, pool, -1);
    ct_live_traits(l, pool)->link = bytes;
    ct_live_pool_count(l, pool, +1);
}

static inline void ct_live_pool_apply_sample(struct ct_live *l, const struct ct_event *e) {
    struct ct_object *o = ct_live_pool_get(l, e->pool, CT_HAS(e, device) ? e->device : CT_NO_DEVICE);
    if (o && CT_HAS(e, reserved_bytes))
        ct_live_pool_set_reserved(l, o, e->reserved_bytes);
}

// ---- blocks -----------------------------------------------------------------------------------

// PyTorch's own totals of the device, which it states with every block.
CT_HOT void ct_live_set_reported(struct ct_live *l, const struct ct_event *e) {
    struct ct_live_device *d = ct_live_device(l, CT_HAS(e, device) ? e->device : CT_NO_DEVICE);
    if (!CT_HAS(e, allocated_bytes) || !CT_HAS(e, reserved_bytes))
        return;
    d->reported_allocated = e->allocated_bytes;
    d->reported_reserved = e->reserved_bytes;
    d->stated = 1;
}

CT_HOT void ct_live_free_block(struct ct_live *l, const struct ct_found *f) {
    const struct ct_object *o = &f->what->object;
    ct_slot_index_erase(l, f);
    l->of_kind[CT_KIND_BLOCK]--;
    ct_object_count(l, o, CT_KIND_BLOCK, ct_live_traits(l, o), -1);
    ct_object_discard(l, f->slot);
}

// The state after a block-alloc or block-free. (A block that is given back is PyTorch's again: nothing can refuse it.)
CT_HOT void ct_live_apply_block(struct ct_live *l, const struct ct_event *e, uint64_t number,
                                uint64_t hash, const struct ct_found *given) {
    if (e->op == CT_OP_BLOCK_FREE) {
        if (given->what)
            ct_live_free_block(l, given);
        else if (!l->partial)
            l->unknown_blocks++;
    } else if (CT_HAS(e, ptr) && e->ptr) {
        ct_live_add_hashed(l, CT_KIND_BLOCK, e->ptr, hash, e, number);
        ct_live_segment_mark(l, e->ptr, CT_HAS(e, bytes) && e->bytes ? e->bytes : 1);
    }
    ct_live_set_reported(l, e);
}

// The same of other calls than those that most events are.
CT_COLD void ct_live_apply_other(struct ct_live *l, const struct ct_event *e, uint64_t number) {
    const uint64_t ptr = CT_HAS(e, ptr) ? e->ptr : 0;
    const uint64_t handle = CT_HAS(e, handle) ? e->handle : 0;
    switch (e->op) {
    case CT_OP_ALLOC:
        if (handle)
            ct_live_add(l, CT_KIND_ARRAY, handle, e, number);
        break;
    case CT_OP_CREATE:
    case CT_OP_IMPORT:
        if (handle)
            ct_live_add_reference(l, CT_KIND_HANDLE, handle, e, number);
        break;
    case CT_OP_RETAIN: {
        struct ct_object *o = ct_live_find(l, CT_KIND_HANDLE, handle);
        if (o)
            ct_live_traits(l, o)->refs++;
        break;
    }
    case CT_OP_RELEASE:
        ct_live_drop_reference(l, CT_KIND_HANDLE, handle);
        break;
    case CT_OP_MAP:
        ct_live_map(l, e, number);
        break;
    case CT_OP_UNMAP:
        if (ptr && CT_HAS(e, bytes))
            ct_live_unmap(l, ptr, e->bytes);
        break;
    case CT_OP_RESERVE:
        if (ptr)
            ct_live_add(l, CT_KIND_RESERVED, ptr, e, number);
        break;
    case CT_OP_UNRESERVE:
        ct_live_free_key(l, CT_KIND_RESERVED, ptr, e);
        break;
    case CT_OP_REGISTER:
        if (ptr)
            ct_live_add(l, CT_KIND_REGISTERED, ptr, e, number);
        break;
    case CT_OP_UNREGISTER:
        ct_live_free_key(l, CT_KIND_REGISTERED, ptr, e);
        break;
    case CT_OP_GRAPH_ALLOC:
        if (ptr)
            ct_live_add(l, CT_KIND_GRAPH, ptr, e, number);
        break;
    case CT_OP_GRAPH_FREE:
        break; // the address stays the graph's; memory comes and goes with its launches
    case CT_OP_IPC_OPEN:
        if (ptr)
            ct_live_add_reference(l, CT_KIND_IPC, ptr, e, number);
        break;
    case CT_OP_IPC_CLOSE:
        ct_live_drop_reference(l, CT_KIND_IPC, ptr);
        break;
    case CT_OP_POOL_SAMPLE:
        if (CT_HAS(e, pool))
            ct_live_pool_apply_sample(l, e);
        break;
    case CT_OP_POOL_DESTROY: {
        // Deferred: the pool lives on until what it handed out is freed, then nothing is reserved.
        struct ct_object *o = CT_HAS(e, pool) ? ct_live_find(l, CT_KIND_POOL, e->pool) : NULL;
        if (o)
            ct_live_pool_set_reserved(l, o, 0);
        break;
    }
    case CT_OP_CONTEXT_DESTROY:
        if (CT_HAS(e, context))
            ct_live_end_context(l, e->context);
        break;
    case CT_OP_BLOCK_OOM:
        ct_live_set_reported(l, e);
        break;
    default:
        break;
    }
}

// The state after an event. `number` is the event's; a failed event (result not 0) changes nothing. `hash` is the event's, and
// `given`, of a free, what ct_live_find_freed says of it.
CT_HOT void ct_live_apply_at(struct ct_live *l, const struct ct_event *e, uint64_t number,
                             uint64_t hash, const struct ct_found *given) {
    if (CT_HAS(e, result) && e->result != 0) {
        if (e->op == CT_OP_AMEND)
            ct_tentative_amend(l, e);
        return;
    }
    if (e->op == CT_OP_ALLOC && CT_HAS(e, ptr) && e->ptr)
        ct_live_add_hashed(l, CT_KIND_ADDRESS, e->ptr, hash, e, number);
    else if (e->op == CT_OP_FREE)
        ct_live_free(l, e, given);
    else if (ct_op_is_block(e->op))
        ct_live_apply_block(l, e, number, hash, given);
    else
        ct_live_apply_other(l, e, number);
}

static inline void ct_live_apply(struct ct_live *l, const struct ct_event *e, uint64_t number) {
    const uint64_t hash = ct_slot_index_hash_event(e);
    struct ct_found given = {NULL, NULL, 0, 0, CT_NO_SLOT};
    if (e->op == CT_OP_FREE || e->op == CT_OP_BLOCK_FREE)
        given = ct_live_find_freed(l, e, hash);
    ct_live_apply_at(l, e, number, hash, &given);
}

#endif
