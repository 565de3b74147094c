// SPDX-License-Identifier: Apache-2.0
// What is alive in a process: the state that a sequence of events leads to.
//
// Header-only and free of I/O, because the writer (in the traced process) and the report (from a
// file) must come to the same answer. The caller lends the memory. Not thread-safe.
//
// Sources of the rules: cuda.h, at cuMemFree (what it accepts), cuMemRelease ("freed when all
// outstanding mappings are unmapped and all references released"), cuCtxDestroy (ends neither VMM
// objects nor stream-ordered allocations), cuda_runtime_api.h at cudaDeviceReset (the same).
#ifndef CUTRACE_LIVE_H
#define CUTRACE_LIVE_H

#include <string.h>

#include "format.h"

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
    CT_KIND_POOL, // key is the pool; bytes handed out, link the bytes reserved as last sampled
};

#define CT_NO_DEVICE (-1)
#define CT_MAX_DEVICES 64

struct ct_object {
    uint64_t key;
    uint64_t bytes;
    uint64_t context;
    uint64_t link;  // MAPPING: handle; POOL: reserved bytes; ADDRESS: its pool
    uint64_t event; // number of the event that made it
    uint64_t t_ns;
    uint32_t stack, api, thread, flags;
    uint32_t refs, maps; // HANDLE, IPC
    int16_t device;      // or CT_NO_DEVICE
    uint8_t kind, space;
};

// Totals of a device. live_* counts addresses from allocation calls (device and managed), arrays
// and VMM objects that are not given back; never mappings, reservations or host memory.
struct ct_live_device {
    uint64_t live_bytes, live_allocations;
    uint64_t managed_bytes; // part of live_bytes; where it resides is not known
    uint64_t pooled_bytes;  // part of live_bytes: stream-ordered, drawn from pools
    uint64_t pool_bytes;    // held by pools: the larger of handed out and reserved, over all pools
};

struct ct_live {
    struct ct_object *table; // open addressing, linear probing, no tombstones
    size_t capacity, used;   // capacity is a power of two
    // Memory for the table: old block (may be NULL) with its size, and the new size (0 = give back).
    // Returns NULL when there is none; the state then goes on without the object (`overflow`).
    void *(*resize)(void *user, void *old, size_t old_bytes, size_t new_bytes);
    // Told of everything that joins (+1) or leaves (-1) the live_* totals. May be NULL.
    void (*changed)(void *user, const struct ct_object *object, int sign);
    void *user;
    struct ct_live_device device[CT_MAX_DEVICES + 1]; // the last one: device unknown
    uint64_t host_bytes;                              // page-locked by allocation calls
    uint64_t unknown_frees, replaced, overflow;
};

static inline void ct_live_init(struct ct_live *l, void *(*resize)(void *, void *, size_t, size_t),
                                void *user) {
    memset(l, 0, sizeof *l);
    l->resize = resize;
    l->user = user;
}

static inline struct ct_live_device *ct_live_device(struct ct_live *l, int device) {
    return &l->device[device >= 0 && device < CT_MAX_DEVICES ? device : CT_MAX_DEVICES];
}

// Bytes of the device that this process is known to hold. Managed memory is left out: it migrates.
static inline uint64_t ct_live_tracked(const struct ct_live_device *d) {
    return d->live_bytes - d->managed_bytes - d->pooled_bytes + d->pool_bytes;
}

static inline size_t ct_live_slot(const struct ct_live *l, unsigned kind, uint64_t key) {
    uint64_t h = (key ^ (uint64_t)kind << 56) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(h ^ h >> 32) & (l->capacity - 1);
}

static inline struct ct_object *ct_live_find(const struct ct_live *l, unsigned kind, uint64_t key) {
    if (!l->capacity)
        return NULL;
    for (size_t i = ct_live_slot(l, kind, key); l->table[i].kind; i = (i + 1) & (l->capacity - 1))
        if (l->table[i].key == key && l->table[i].kind == kind)
            return &l->table[i];
    return NULL;
}

static inline int ct_live_grow(struct ct_live *l) {
    const size_t capacity = l->capacity ? l->capacity * 2 : 1024;
    struct ct_object *old = l->table;
    const size_t old_capacity = l->capacity;
    struct ct_object *table =
        (struct ct_object *)l->resize(l->user, NULL, 0, capacity * sizeof *table);
    if (!table)
        return -1;
    memset(table, 0, capacity * sizeof *table);
    l->table = table;
    l->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++) {
        if (!old[i].kind)
            continue;
        size_t s = ct_live_slot(l, old[i].kind, old[i].key);
        while (table[s].kind)
            s = (s + 1) & (capacity - 1);
        table[s] = old[i];
    }
    if (old)
        l->resize(l->user, old, old_capacity * sizeof *old, 0);
    return 0;
}

// Adds to (+1) or takes from (-1) the totals what the object counts for.
static inline void ct_live_count(struct ct_live *l, const struct ct_object *o, int sign) {
    const uint64_t bytes = sign < 0 ? 0 - o->bytes : o->bytes;
    struct ct_live_device *d = ct_live_device(l, o->device);
    if (o->kind != CT_KIND_ADDRESS && o->kind != CT_KIND_ARRAY && o->kind != CT_KIND_HANDLE)
        return;
    if (o->space == CT_SPACE_HOST) {
        l->host_bytes += bytes;
        return;
    }
    if (o->flags & (CT_FLAG_FOREIGN | CT_FLAG_MULTICAST | CT_FLAG_DEFERRED))
        return;
    d->live_bytes += bytes;
    d->live_allocations += (uint64_t)(int64_t)sign;
    if (o->space == CT_SPACE_MANAGED)
        d->managed_bytes += bytes;
    else if (o->flags & CT_FLAG_ASYNC)
        d->pooled_bytes += bytes;
    if (l->changed)
        l->changed(l->user, o, sign);
}

static inline uint64_t ct_live_pool_holds(const struct ct_object *pool) {
    return pool->bytes > pool->link ? pool->bytes : pool->link;
}

// Removes an object and closes the gap behind it. Pointers into the table are void afterwards.
static inline void ct_live_erase(struct ct_live *l, struct ct_object *o) {
    const size_t mask = l->capacity - 1;
    size_t hole = (size_t)(o - l->table);
    for (size_t i = (hole + 1) & mask; l->table[i].kind; i = (i + 1) & mask) {
        const size_t home = ct_live_slot(l, l->table[i].kind, l->table[i].key);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            l->table[hole] = l->table[i];
            hole = i;
        }
    }
    l->table[hole].kind = CT_KIND_NONE;
    l->used--;
}

static inline struct ct_object *ct_live_insert(struct ct_live *l, unsigned kind, uint64_t key) {
    if ((l->used + 1) * 4 > l->capacity * 3 && ct_live_grow(l) && l->used + 1 >= l->capacity) {
        l->overflow++;
        return NULL;
    }
    size_t i = ct_live_slot(l, kind, key);
    while (l->table[i].kind)
        i = (i + 1) & (l->capacity - 1);
    memset(&l->table[i], 0, sizeof l->table[i]);
    l->table[i].kind = (uint8_t)kind;
    l->table[i].key = key;
    l->used++;
    return &l->table[i];
}

// The pool's own object; made when first heard of, because default pools are never created.
static inline struct ct_object *ct_live_pool(struct ct_live *l, uint64_t pool, int device) {
    struct ct_object *o = ct_live_find(l, CT_KIND_POOL, pool);
    if (!o && (o = ct_live_insert(l, CT_KIND_POOL, pool)))
        o->device = (int16_t)device;
    return o;
}

static inline void ct_live_pool_change(struct ct_live *l, const struct ct_object *member,
                                       int sign) {
    if (!(member->flags & CT_FLAG_ASYNC) || member->space != CT_SPACE_DEVICE)
        return;
    // Without a pool the device's default pool is meant; its key is one that no pointer has.
    const uint64_t key = member->link ? member->link : (uint64_t)member->device + 1;
    struct ct_object *pool = ct_live_pool(l, key, member->device);
    if (!pool)
        return;
    struct ct_live_device *d = ct_live_device(l, pool->device);
    d->pool_bytes -= ct_live_pool_holds(pool);
    pool->bytes += sign < 0 ? 0 - member->bytes : member->bytes;
    d->pool_bytes += ct_live_pool_holds(pool);
}

static inline void ct_live_remove(struct ct_live *l, struct ct_object *o) {
    const struct ct_object gone = *o;
    ct_live_erase(l, o);
    ct_live_count(l, &gone, -1);
    if (gone.kind == CT_KIND_ADDRESS)
        ct_live_pool_change(l, &gone, -1);
    if (gone.kind == CT_KIND_POOL)
        ct_live_device(l, gone.device)->pool_bytes -= ct_live_pool_holds(&gone);
}

// An object as an event describes it, replacing one that is still there (its end was missed).
static inline struct ct_object *ct_live_add(struct ct_live *l, unsigned kind, uint64_t key,
                                            const struct ct_event *e, uint64_t number) {
    struct ct_object *o = ct_live_find(l, kind, key);
    if (o) {
        ct_live_remove(l, o);
        l->replaced++;
    }
    if (!(o = ct_live_insert(l, kind, key)))
        return NULL;
    o->bytes = CT_HAS(e, bytes) ? e->bytes : 0;
    o->context = CT_HAS(e, context) ? e->context : 0;
    o->event = number;
    o->t_ns = e->t_ns;
    o->stack = CT_HAS(e, stack) ? e->stack : 0;
    o->api = CT_HAS(e, api) ? e->api : 0;
    o->thread = CT_HAS(e, thread) ? e->thread : 0;
    o->flags = CT_HAS(e, flags) ? e->flags : 0;
    o->device =
        (int16_t)(CT_HAS(e, device) && e->device >= 0 && e->device < CT_MAX_DEVICES ? e->device
                                                                                    : CT_NO_DEVICE);
    o->space = (uint8_t)(CT_HAS(e, space) ? e->space : CT_SPACE_UNKNOWN);
    if (kind == CT_KIND_ADDRESS)
        o->link = CT_HAS(e, pool) ? e->pool : 0;
    const struct ct_object made = *o;
    ct_live_count(l, &made, +1);
    if (kind == CT_KIND_ADDRESS)
        ct_live_pool_change(l, &made, +1);
    return ct_live_find(l, kind, key);
}

// A VMM object whose last reference and last mapping are gone gives its memory back.
static inline void ct_live_settle(struct ct_live *l, struct ct_object *o) {
    if (o && o->kind == CT_KIND_HANDLE && !o->refs && !o->maps)
        ct_live_remove(l, o);
}

static inline void ct_live_unmap_one(struct ct_live *l, struct ct_object *mapping) {
    const uint64_t handle = mapping->link;
    ct_live_remove(l, mapping);
    struct ct_object *o = ct_live_find(l, CT_KIND_HANDLE, handle);
    if (o && o->maps)
        o->maps--;
    ct_live_settle(l, o);
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
    for (size_t i = 0; i < l->capacity; i++)
        while (l->table[i].kind == CT_KIND_MAPPING && l->table[i].key - start < bytes)
            ct_live_unmap_one(l, &l->table[i]);
}

// What an event that gives back is about, or NULL if that was never seen.
static inline struct ct_object *ct_live_given(const struct ct_live *l, const struct ct_event *e) {
    const uint64_t ptr = CT_HAS(e, ptr) ? e->ptr : 0, handle = CT_HAS(e, handle) ? e->handle : 0;
    struct ct_object *o = NULL;
    switch (e->op) {
    case CT_OP_FREE: // takes what any kind of allocation gave out
        if (handle)
            return ct_live_find(l, CT_KIND_ARRAY, handle);
        if (ptr && !(o = ct_live_find(l, CT_KIND_ADDRESS, ptr)) &&
            !(o = ct_live_find(l, CT_KIND_GRAPH, ptr)))
            o = ct_live_find(l, CT_KIND_MAPPING, ptr);
        return o;
    case CT_OP_RELEASE:
        return ct_live_find(l, CT_KIND_HANDLE, handle);
    case CT_OP_UNMAP:
        return ct_live_find(l, CT_KIND_MAPPING, ptr);
    case CT_OP_UNRESERVE:
        return ct_live_find(l, CT_KIND_RESERVED, ptr);
    case CT_OP_UNREGISTER:
        return ct_live_find(l, CT_KIND_REGISTERED, ptr);
    case CT_OP_IPC_CLOSE:
        return ct_live_find(l, CT_KIND_IPC, ptr);
    case CT_OP_GRAPH_FREE:
        return ct_live_find(l, CT_KIND_GRAPH, ptr);
    case CT_OP_POOL_TRIM:
    case CT_OP_POOL_DESTROY:
        return CT_HAS(e, pool) ? ct_live_find(l, CT_KIND_POOL, e->pool) : NULL;
    default:
        return NULL;
    }
}

static inline void ct_live_free(struct ct_live *l, const struct ct_event *e) {
    struct ct_object *o = ct_live_given(l, e);
    if (o && o->kind == CT_KIND_MAPPING)
        ct_live_unmap_one(l, o);
    else if (o)
        ct_live_remove(l, o);
    else if (CT_HAS(e, ptr) && e->ptr)
        l->unknown_frees++;
}

static inline void ct_live_end_context(struct ct_live *l, uint64_t context) {
    for (size_t i = 0; i < l->capacity; i++)
        while ((l->table[i].kind == CT_KIND_ADDRESS || l->table[i].kind == CT_KIND_ARRAY ||
                l->table[i].kind == CT_KIND_REGISTERED) &&
               l->table[i].context == context && !(l->table[i].flags & CT_FLAG_ASYNC))
            ct_live_remove(l, &l->table[i]);
}

static inline void ct_live_erase_key(struct ct_live *l, unsigned kind, uint64_t key) {
    struct ct_object *o = ct_live_find(l, kind, key);
    if (o)
        ct_live_remove(l, o);
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
    o->link = CT_HAS(e, handle) ? e->handle : 0;
    if ((o = ct_live_find(l, CT_KIND_HANDLE, o->link)))
        o->maps++;
}

static inline void ct_live_refer(struct ct_live *l, unsigned kind, uint64_t key,
                                 const struct ct_event *e, uint64_t number) {
    struct ct_object *o = ct_live_find(l, kind, key);
    if (o && (o->refs || o->maps))
        o->refs++; // opened or imported again: the same key, one more reference
    else if ((o = ct_live_add(l, kind, key, e, number)))
        o->refs = 1;
}

static inline void ct_live_unrefer(struct ct_live *l, unsigned kind, uint64_t key) {
    struct ct_object *o = ct_live_find(l, kind, key);
    if (!o)
        return;
    if (o->refs)
        o->refs--;
    if (kind == CT_KIND_HANDLE)
        ct_live_settle(l, o);
    else if (!o->refs)
        ct_live_remove(l, o);
}

static inline void ct_live_pool_sample(struct ct_live *l, const struct ct_event *e) {
    struct ct_object *o = ct_live_pool(l, e->pool, CT_HAS(e, device) ? e->device : CT_NO_DEVICE);
    if (!o || !CT_HAS(e, reserved_bytes))
        return;
    struct ct_live_device *d = ct_live_device(l, o->device);
    d->pool_bytes -= ct_live_pool_holds(o);
    o->link = e->reserved_bytes;
    d->pool_bytes += ct_live_pool_holds(o);
}

// The state after an event. `number` is the event's; a failed event (result not 0) changes nothing.
static inline void ct_live_apply(struct ct_live *l, const struct ct_event *e, uint64_t number) {
    const uint64_t ptr = CT_HAS(e, ptr) ? e->ptr : 0;
    const uint64_t handle = CT_HAS(e, handle) ? e->handle : 0;
    if (CT_HAS(e, result) && e->result != 0)
        return;
    switch (e->op) {
    case CT_OP_ALLOC:
        if (ptr)
            ct_live_add(l, CT_KIND_ADDRESS, ptr, e, number);
        else if (handle)
            ct_live_add(l, CT_KIND_ARRAY, handle, e, number);
        break;
    case CT_OP_FREE:
        ct_live_free(l, e);
        break;
    case CT_OP_CREATE:
    case CT_OP_IMPORT:
        if (handle)
            ct_live_refer(l, CT_KIND_HANDLE, handle, e, number);
        break;
    case CT_OP_RETAIN: {
        struct ct_object *o = ct_live_find(l, CT_KIND_HANDLE, handle);
        if (o)
            o->refs++;
        break;
    }
    case CT_OP_RELEASE:
        ct_live_unrefer(l, CT_KIND_HANDLE, handle);
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
        ct_live_erase_key(l, CT_KIND_RESERVED, ptr);
        break;
    case CT_OP_REGISTER:
        if (ptr)
            ct_live_add(l, CT_KIND_REGISTERED, ptr, e, number);
        break;
    case CT_OP_UNREGISTER:
        ct_live_erase_key(l, CT_KIND_REGISTERED, ptr);
        break;
    case CT_OP_GRAPH_ALLOC:
        if (ptr)
            ct_live_add(l, CT_KIND_GRAPH, ptr, e, number);
        break;
    case CT_OP_GRAPH_FREE:
        break; // the address stays the graph's; memory comes and goes with its launches
    case CT_OP_IPC_OPEN:
        if (ptr)
            ct_live_refer(l, CT_KIND_IPC, ptr, e, number);
        break;
    case CT_OP_IPC_CLOSE:
        ct_live_unrefer(l, CT_KIND_IPC, ptr);
        break;
    case CT_OP_POOL_SAMPLE:
        if (CT_HAS(e, pool))
            ct_live_pool_sample(l, e);
        break;
    case CT_OP_POOL_DESTROY: {
        // Deferred: the pool lives on until what it handed out is freed, then nothing is reserved.
        struct ct_object *o = CT_HAS(e, pool) ? ct_live_find(l, CT_KIND_POOL, e->pool) : NULL;
        if (o) {
            struct ct_live_device *d = ct_live_device(l, o->device);
            d->pool_bytes -= ct_live_pool_holds(o);
            o->link = 0;
            d->pool_bytes += ct_live_pool_holds(o);
        }
        break;
    }
    case CT_OP_CONTEXT_DESTROY:
        if (CT_HAS(e, context))
            ct_live_end_context(l, e->context);
        break;
    default:
        break;
    }
}

#endif
