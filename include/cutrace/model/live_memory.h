// SPDX-License-Identifier: Apache-2.0
// The state of a process's memory, its structures and the slots they lie in. live.h applies events
// to it.
//
// Objects lie in slots of 40 bytes, in slabs that never move: pointers and slot numbers stay valid
// until the object ends. What many objects have in common (thread, api, context, ...) is stored
// once, in a slot of its own (objects.h). An index (slot_index.h) finds an object by kind and key.
// Together they take at most 55 bytes for an object (56 in an index that has just grown). The
// caller lends the memory. Header-only and free of I/O. Not thread-safe.
#ifndef CUTRACE_LIVE_MEMORY_H
#define CUTRACE_LIVE_MEMORY_H

#include <string.h>

#include <cutrace/format/assert.h>
#include <cutrace/format/event_match.h>
#include <cutrace/format/format.h>
#include <cutrace/format/hot.h>
#include <cutrace/model/open_ranges.h>

enum ct_kind {
    CT_KIND_NONE = 0,
    CT_KIND_ADDRESS,    // alloc: key is the address
    CT_KIND_ARRAY,      // alloc of an array: key is the handle
    CT_KIND_HANDLE,     // create, import: key is the handle; has refs and maps
    CT_KIND_MAPPING,    // map: key is the address, link the handle
    CT_KIND_GRAPH,      // graph-alloc: key is the address
    CT_KIND_REGISTERED, // register: key is the address
    CT_KIND_IPC,        // ipc-open: key is the address; has refs
    CT_KIND_RESERVED,   // reserve: key is the address
    CT_KIND_POOL,     // key is the pool; bytes handed out, link the bytes reserved as last sampled
    CT_KIND_SITE_SUM, // the sum of the allocations of a call site: link is their number
    CT_KIND_BLOCK,    // block-alloc: key is the address; lies inside another object's memory
    CT_KINDS_END,
    // What a slot can hold besides objects.
    CT_KIND_SHARED_TRAITS = CT_KINDS_END, // a struct ct_traits that the index finds by its content
    CT_KIND_OWN_TRAITS,                   // a struct ct_traits of one object
    CT_KIND_TENTATIVE,                    // an object whose free may still turn out to have failed
};

#define CT_NO_DEVICE (-1)
#define CT_MAX_DEVICES 64

// The index of a device in tables that have one more entry, for objects whose device is unknown.
CT_HOT int ct_device_to_index(int device) {
    return device >= 0 && device < CT_MAX_DEVICES ? device : CT_MAX_DEVICES;
}

// The device as objects store it.
CT_HOT int ct_device_or_none(int device) {
    return device >= 0 && device < CT_MAX_DEVICES ? device : CT_NO_DEVICE;
}

struct ct_object {
    uint64_t key; // in a free slot: number of the next free one
    uint64_t bytes;
    uint64_t t_ns;
    uint32_t stack;
    uint32_t traits;    // slot of its struct ct_traits
    uint32_t event_low; // number of the event that created it: ct_object_event()
    uint16_t event_high : 13;
    // ADDRESS, MAPPING: a PyTorch segment, because it has held a block. The report also sets it:
    // HANDLE: it is mapped into a segment; BLOCK: it lies in segments (torch_pool.h).
    // RESERVED: memory was mapped at its start; `stack` and `t_ns` are of the first mapping.
    uint16_t segment : 1;
    // HANDLE: it resumes a reservation, whose first owner `stack` is (live.h). BLOCK (set by the
    // report): it is older than the memory that it lies in.
    uint16_t resumed : 1;
    // RESERVED: the memory that fills it is a segment of `device`, which sleeps while no memory is
    // mapped at its start.
    uint16_t holds_segment : 1;
    uint8_t kind;
    int8_t device; // or CT_NO_DEVICE
};

// What objects have in common. An object with references, mappings or a link has traits of its own.
struct ct_traits {
    uint64_t context;
    // MAPPING: handle. POOL: reserved bytes. ADDRESS, BLOCK: their pool. SITE_SUM: how many.
    uint64_t link;
    uint32_t thread, api, flags;
    uint32_t refs; // HANDLE, IPC: references; shared traits: the objects that have them
    uint32_t maps; // HANDLE
    uint16_t space;
    uint8_t kind;
    uint8_t was_segment; // HANDLE: has been mapped into a segment (set by the report)
};

union ct_slot {
    struct ct_object object;
    struct ct_traits traits;
};
_Static_assert(sizeof(union ct_slot) == 40, "the bound on memory relies on it");
_Static_assert(offsetof(struct ct_object, kind) == offsetof(struct ct_traits, kind),
               "the kind tells what a slot holds");

// A cache line of the index: 12 entries, each with 7 bits of its key's hash. An entry whose home
// line is full lies in the next line with room, and each full line before that one counts it in
// `passed`.
#define CT_SLOT_INDEX_LINE_ENTRIES 12u
struct ct_slot_index_line {
    uint8_t tag[CT_SLOT_INDEX_LINE_ENTRIES]; // 0: free
    uint16_t passed;                         // stays at UINT16_MAX once it is reached
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

// Totals of a device. live_* count the addresses of allocation calls (device and managed), arrays
// and VMM objects; never mappings, reservations, PyTorch's blocks or host memory.
struct ct_live_device {
    uint64_t live_bytes, live_allocations;
    uint64_t managed_bytes; // part of live_bytes; where it resides is unknown
    uint64_t pooled_bytes;  // part of live_bytes: stream-ordered, drawn from pools
    uint64_t pool_bytes;    // held by pools: the larger of handed out and reserved, over all pools
    uint64_t block_bytes, blocks;                   // PyTorch's live blocks
    uint64_t asleep_segment_bytes;                  // of PyTorch's segments that sleep
    uint64_t reported_allocated, reported_reserved; // PyTorch's own totals, as last reported
    uint64_t reported;                              // 1: it has reported them
};

#define CT_SLAB_SLOTS 4096u
#define CT_RECENT_TRAITS 16u
#define CT_RECENT_POOLS 8u
#define CT_NO_SLOT UINT32_MAX

// See live_segments.h.
#define CT_SEGMENT_PAGE (UINT64_C(2) << 20)       // large memory of the driver begins at multiples
#define CT_SEGMENT_LEAF_BYTES (UINT64_C(8) << 30) // addresses of a leaf
#define CT_SEGMENT_LEAVES 256u
#define CT_SEGMENT_TRIES 8u
#define CT_SEGMENT_MAX_PAGES (UINT64_C(1) << 19) // of a block: 1 TiB

// The last tentative free of a thread (tentative.h).
struct ct_tentative {
    uint64_t freed_ns; // time of the free; 0: none
    uint32_t thread, slot;
    uint8_t kind;   // of the object
    uint8_t shared; // another thread has freed the same object
};

struct ct_live {
    union ct_slot **slab;
    uint32_t slabs, slab_room;
    uint32_t slots; // that were ever used; higher ones are not initialized
    uint32_t free_slot;
    struct ct_slot_index_part part[CT_SLOT_INDEX_PARTS];
    // Traits of recently allocated addresses. Destroyed traits are removed.
    struct ct_recent_traits {
        struct ct_match match;
        struct ct_traits *traits;
        uint32_t slot;
    } recent[CT_RECENT_TRAITS];
    uint32_t recent_pool[CT_RECENT_POOLS]; // slots of pools, unless they hold something else by now
    uint32_t of_kind[CT_KINDS_END];        // objects
    // Allocates new_bytes (old is NULL), aligned to 64 and not necessarily zeroed, or frees `old`
    // (new_bytes is 0). Returns NULL without memory: the state then goes on without the object and
    // counts it in `overflow`.
    void *(*resize)(void *user, void *old, size_t old_bytes, size_t new_bytes);
    // Called when an object joins (+1) or leaves (-1) the live_* totals. May be NULL.
    void (*total_changed)(void *user, const struct ct_object *object, int sign);
    // Called when a VMM object turns out to resume a reservation: its stack is that of the first
    // owner now, and was `by` (the same after a checkpoint). May be NULL.
    void (*owner_changed)(void *user, const struct ct_object *object, uint32_t by);
    // Called when an address joins or leaves, whether or not it counts in the totals. May be NULL.
    void (*address_changed)(void *user, const struct ct_object *object,
                            const struct ct_traits *from, int sign);
    void *user;
    // Called when a block joins or leaves, or what blocks lie in: addresses, mappings and
    // reservations. May be NULL.
    void (*region_changed)(void *region_user, struct ct_object *object,
                           const struct ct_traits *from, int sign);
    void *region_user;
    struct ct_live_device device[CT_MAX_DEVICES + 1]; // the last one: device unknown
    uint64_t host_bytes;                              // page-locked by allocation calls
    uint64_t unknown_frees, replaced, overflow;
    uint64_t unknown_blocks; // block-frees of unknown blocks
    // CT_SEGMENT_PAGE_* of the pages that hold blocks.
    struct ct_live_segment_leaf {
        uint64_t number; // address / CT_SEGMENT_LEAF_BYTES
        uint8_t *page;
    } leaf[CT_SEGMENT_LEAVES];
    int has_blocks;    // there has been a block
    int partial;       // a checkpoint is not complete yet: unknown frees are expected
    int next_is_freed; // the object that the checkpoint restores next has been freed
    // Table of tentative frees, zeroed. The caller lends it; tentative_room is a power of two and
    // at least the number of threads that free at the same time. 0: every free is final.
    struct ct_tentative *tentative;
    uint32_t tentative_room, tentative_used;
    struct ct_open_ranges open; // of the program's ranges
};

static inline void ct_live_init(struct ct_live *l, void *(*resize)(void *, void *, size_t, size_t),
                                void *user) {
    memset(l, 0, sizeof *l);
    l->resize = resize;
    l->user = user;
    l->free_slot = CT_NO_SLOT;
}

// Frees the memory of the objects. Totals stay readable; only ct_live_init makes the state usable
// again.
static inline void ct_live_release(struct ct_live *l) {
    for (unsigned i = 0; i < CT_SLOT_INDEX_PARTS; i++) {
        struct ct_slot_index_part *p = &l->part[i];
        if (p->lines)
            l->resize(l->user, p->lines, p->capacity * sizeof *p->lines, 0);
        *p = (struct ct_slot_index_part){NULL, 0, 0};
    }
    for (uint32_t i = 0; i < l->slabs; i++)
        l->resize(l->user, l->slab[i], CT_SLAB_SLOTS * sizeof **l->slab, 0);
    if (l->slab)
        l->resize(l->user, l->slab, l->slab_room * sizeof *l->slab, 0);
    for (unsigned i = 0; i < CT_SEGMENT_LEAVES; i++)
        if (l->leaf[i].page)
            l->resize(l->user, l->leaf[i].page, CT_SEGMENT_LEAF_BYTES / CT_SEGMENT_PAGE, 0);
    memset(l->leaf, 0, sizeof l->leaf);
    l->has_blocks = 0;
    l->slab = NULL;
    l->slabs = l->slab_room = l->slots = 0;
    l->free_slot = CT_NO_SLOT;
}

CT_HOT struct ct_live_device *ct_live_device(struct ct_live *l, int device) {
    return &l->device[ct_device_to_index(device)];
}

// Bytes of the device that this process is known to hold. Without managed memory, because it
// migrates.
static inline uint64_t ct_live_tracked(const struct ct_live_device *d) {
    return d->live_bytes - d->managed_bytes - d->pooled_bytes + d->pool_bytes;
}

// What stream-ordered memory pools hold beyond their allocations: part of the tracked bytes.
static inline uint64_t ct_live_pool_idle(const struct ct_live_device *d) {
    return d->pool_bytes > d->pooled_bytes ? d->pool_bytes - d->pooled_bytes : 0;
}

// ---- slots --------------------------------------------------------------------------------------

CT_HOT union ct_slot *ct_live_slot(const struct ct_live *l, uint32_t slot) {
    CT_ASSERT(slot < l->slots);
    return &l->slab[slot / CT_SLAB_SLOTS][slot % CT_SLAB_SLOTS];
}

// All objects: for (slot = 0; slot < ct_live_slot_count(l); slot++) if (ct_live_object_at(l, slot))
// An object keeps its slot. One that is created during the loop may lie in a lower or a higher
// slot.
static inline uint32_t ct_live_slot_count(const struct ct_live *l) {
    return l->slots;
}

// The object in a slot; NULL if there is none.
static inline struct ct_object *ct_live_object_at(const struct ct_live *l, uint32_t slot) {
    struct ct_object *o = &ct_live_slot(l, slot)->object;
    return o->kind != CT_KIND_NONE && o->kind < CT_KINDS_END ? o : NULL;
}

// All objects of a kind: for (w = ct_live_walk_kind(l, kind); (o = ct_live_walk_next(l, &w));) The
// loop may remove the object that it has.
struct ct_live_walk {
    uint32_t slot, left; // of the kind
    unsigned kind;
};

static inline struct ct_live_walk ct_live_walk_kind(const struct ct_live *l, unsigned kind) {
    return (struct ct_live_walk){.left = l->of_kind[kind], .kind = kind};
}

static inline struct ct_object *ct_live_walk_next(const struct ct_live *l, struct ct_live_walk *w) {
    while (w->left && w->slot < l->slots) {
        struct ct_object *o = ct_live_object_at(l, w->slot++);
        if (o && o->kind == w->kind) {
            w->left--;
            return o;
        }
    }
    return NULL;
}

CT_HOT struct ct_traits *ct_live_traits(const struct ct_live *l, const struct ct_object *o) {
    CT_ASSERT(ct_live_slot(l, o->traits)->traits.kind == CT_KIND_SHARED_TRAITS ||
              ct_live_slot(l, o->traits)->traits.kind == CT_KIND_OWN_TRAITS);
    return &ct_live_slot(l, o->traits)->traits;
}

// Number of the event that created the object.
CT_HOT uint64_t ct_object_event(const struct ct_object *o) {
    return (uint64_t)o->event_high << 32 | o->event_low;
}

CT_COLD int ct_live_add_slab(struct ct_live *l) {
    if (l->slabs == CT_NO_SLOT / CT_SLAB_SLOTS)
        return -1;
    if (l->slabs == l->slab_room) {
        const uint32_t room = l->slab_room ? l->slab_room * 2 : 64;
        union ct_slot **more = (union ct_slot **)l->resize(l->user, NULL, 0, room * sizeof *more);
        if (!more)
            return -1;
        if (l->slab) {
            memcpy(more, l->slab, l->slabs * sizeof *more);
            l->resize(l->user, l->slab, l->slab_room * sizeof *more, 0);
        }
        l->slab = more;
        l->slab_room = room;
    }
    union ct_slot *made =
        (union ct_slot *)l->resize(l->user, NULL, 0, CT_SLAB_SLOTS * sizeof *made);
    if (!made)
        return -1;
    l->slab[l->slabs++] = made;
    return 0;
}

// A slot that is zero except its kind; CT_NO_SLOT without memory.
CT_HOT uint32_t ct_live_alloc_slot(struct ct_live *l, unsigned kind) {
    uint32_t slot = l->free_slot;
    if (slot != CT_NO_SLOT)
        l->free_slot = (uint32_t)ct_live_slot(l, slot)->object.key;
    else if (l->slots < l->slabs * CT_SLAB_SLOTS || !ct_live_add_slab(l))
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
    CT_ASSERT(s->object.kind != CT_KIND_NONE);
    s->object.kind = CT_KIND_NONE;
    s->object.key = l->free_slot;
    l->free_slot = slot;
}

#endif
