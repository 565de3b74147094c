// SPDX-License-Identifier: Apache-2.0
// What is live in a process: the state that a sequence of events leads to.
//
// Header-only and free of I/O, because the writer (in the traced process) and the report (from a
// file) must come to the same state. The caller lends the memory (live_memory.h). Not thread-safe.
//
// The rules are those of cuda.h: at cuMemFree (what it accepts), cuMemRelease ("freed when all
// outstanding mappings are unmapped and all references released"), cuCtxDestroy (ends neither VMM
// objects nor stream-ordered allocations), and of cuda_runtime_api.h at cudaDeviceReset (the same).
#ifndef CUTRACE_LIVE_H
#define CUTRACE_LIVE_H

#include <cutrace/model/objects.h>
#include <cutrace/model/tentative.h>

// ---- what an event makes or ends ----------------------------------------------------------------

static inline uint64_t ct_event_key(const struct ct_event *e, unsigned kind) {
    if (kind == CT_KIND_HANDLE || kind == CT_KIND_ARRAY)
        return CT_GET(e, handle);
    if (kind == CT_KIND_POOL)
        return CT_GET(e, pool);
    return CT_GET(e, ptr);
}

// The kinds of objects that an operation creates or ends, or CT_KIND_NONE.
static inline unsigned ct_op_makes(uint32_t op) {
    static const uint8_t makes[CT_OPS_END] = {
#define CT_OP_DOES(OP, MAKES, ENDS, ASKS) [CT_OP_##OP] = CT_KIND_##MAKES,
#include <cutrace/model/ops.def>
    };
    return op < CT_OPS_END ? makes[op] : CT_KIND_NONE;
}

static inline unsigned ct_op_ends(uint32_t op) {
    static const uint8_t ends[CT_OPS_END] = {
#define CT_OP_DOES(OP, MAKES, ENDS, ASKS) [CT_OP_##OP] = CT_KIND_##ENDS,
#include <cutrace/model/ops.def>
    };
    return op < CT_OPS_END ? ends[op] : CT_KIND_NONE;
}

// The kind of the object that an event creates, and its key; CT_KIND_NONE if it creates none.
static inline unsigned ct_event_makes(const struct ct_event *e, uint64_t *key) {
    unsigned kind = ct_op_makes(e->op);
    if (kind == CT_KIND_ADDRESS && !ct_event_key(e, kind))
        kind = CT_KIND_ARRAY;
    *key = ct_event_key(e, kind);
    return *key ? kind : CT_KIND_NONE;
}

// Creates an object as an event describes it. An object with the same key is replaced: its end was
// missed.
CT_HOT struct ct_object *ct_live_add_hashed(struct ct_live *l, unsigned kind, uint64_t key,
                                            uint64_t hash, const struct ct_event *e,
                                            uint64_t number) {
    const struct ct_found there = ct_slot_index_lookup_hashed(l, kind, key, hash);
    if (there.what) {
        ct_object_remove_found(l, &there);
        l->replaced++;
    }
    struct ct_object *o =
        ct_object_insert(l, kind, key, hash, ct_traits_acquire_for_event(l, kind, e));
    if (!o)
        return NULL;
    o->bytes = CT_GET(e, bytes);
    o->event_low = (uint32_t)number;
    o->event_high = (uint16_t)(number >> 32) & 0x1FFF;
    o->t_ns = e->t_ns;
    o->stack = CT_GET(e, stack);
    o->device = (int8_t)(CT_HAS(e, device) ? ct_device_or_none(e->device) : CT_NO_DEVICE);
    if ((kind == CT_KIND_ADDRESS || kind == CT_KIND_MAPPING) && __builtin_expect(l->has_blocks, 0))
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

// ---- VMM objects: references and mappings -------------------------------------------------------

// A VMM object without references and mappings is freed.
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

// cuMemUnmap takes a range that may hold several mappings. They are usually adjacent.
static inline void ct_live_unmap(struct ct_live *l, uint64_t start, uint64_t bytes) {
    uint64_t at = start;
    struct ct_object *o;
    while (at - start < bytes && (o = ct_live_find(l, CT_KIND_MAPPING, at))) {
        at += o->bytes ? o->bytes : 1;
        ct_live_unmap_one(l, o);
    }
    if (at - start >= bytes)
        return;
    struct ct_live_walk w = ct_live_walk_kind(l, CT_KIND_MAPPING);
    while ((o = ct_live_walk_next(l, &w)))
        if (o->key - start < bytes)
            ct_live_unmap_one(l, o);
}

// ---- frees --------------------------------------------------------------------------------------

CT_COLD struct ct_found ct_live_find_freed_other(const struct ct_live *l,
                                                 const struct ct_event *e) {
    static const struct ct_found nothing = {NULL, NULL, 0, 0, CT_NO_SLOT};
    const uint64_t ptr = ct_event_key(e, CT_KIND_ADDRESS), handle = ct_event_key(e, CT_KIND_ARRAY);
    const unsigned kind = ct_op_ends(e->op);
    struct ct_found f;
    if (e->op != CT_OP_FREE && (!kind || (kind == CT_KIND_POOL && !CT_HAS(e, pool))))
        return nothing; // (0 is the key of a default pool, too)
    if (e->op != CT_OP_FREE)
        return ct_slot_index_lookup(l, kind, ct_event_key(e, kind));
    if (handle) // frees what any kind of allocation returned
        return ct_slot_index_lookup(l, CT_KIND_ARRAY, handle);
    if (!ptr)
        return nothing;
    if ((f = ct_slot_index_lookup(l, CT_KIND_ADDRESS, ptr)).what ||
        (f = ct_slot_index_lookup(l, CT_KIND_GRAPH, ptr)).what)
        return f;
    return ct_slot_index_lookup(l, CT_KIND_MAPPING, ptr);
}

// The object that an event frees, if it is known. `hash` is that of the event. Valid until the next
// event is applied.
CT_HOT struct ct_found ct_live_find_freed(const struct ct_live *l, const struct ct_event *e,
                                          uint64_t hash) {
    struct ct_found f = {NULL, NULL, 0, 0, CT_NO_SLOT};
    if (e->op == CT_OP_ALLOC)
        return f;
    if (e->op == CT_OP_FREE && hash && !CT_HAS(e, handle))
        f = ct_slot_index_lookup_hashed(l, CT_KIND_ADDRESS, e->ptr, hash);
    if (ct_op_is_block(e->op))
        return e->op == CT_OP_BLOCK_FREE && hash
                   ? ct_slot_index_lookup_hashed(l, CT_KIND_BLOCK, e->ptr, hash)
                   : f;
    return f.what ? f : ct_live_find_freed_other(l, e);
}

// A free that finds no array and no address.
CT_COLD void ct_live_free_other(struct ct_live *l, const struct ct_event *e, struct ct_object *o) {
    const unsigned kind = ct_event_key(e, CT_KIND_ARRAY) ? CT_KIND_ARRAY : CT_KIND_ADDRESS;
    struct ct_object *total = NULL;
    if (o && o->kind == CT_KIND_MAPPING)
        ct_live_unmap_one(l, o);
    else if (o) // of a graph; not tentative, because its frees are those of the graph's launches
        ct_object_remove(l, o);
    else if ((total = ct_site_sum_find(l, e)))
        ct_site_sum_subtract(l, total, e);
    else if (!ct_tentative_free_again(l, kind, ct_event_key(e, kind), e) && CT_HAS(e, ptr) &&
             e->ptr && !l->partial)
        l->unknown_frees++;
}

// `freed` is what ct_live_find_freed returned for the event.
CT_HOT void ct_live_free(struct ct_live *l, const struct ct_event *e,
                         const struct ct_found *freed) {
    struct ct_object *const o = ct_found_object(freed);
    ct_tentative_confirm_last(l, e);
    if (o && (o->kind == CT_KIND_ADDRESS || o->kind == CT_KIND_ARRAY))
        ct_tentative_free(l, freed, e);
    else
        ct_live_free_other(l, e, o);
}

static inline int ct_live_is_of_context(const struct ct_live *l, const struct ct_object *o,
                                        unsigned kind, uint64_t context) {
    const struct ct_traits *traits = ct_live_traits(l, o);
    return (kind == CT_KIND_ADDRESS || kind == CT_KIND_ARRAY || kind == CT_KIND_REGISTERED) &&
           traits->context == context && !(traits->flags & CT_FLAG_ASYNC);
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

// Sleep modes (vLLM's CuMemAllocator, torch_memory_saver) unmap and release the memory of a
// reservation and later map new memory at the same address, from other code. A reservation that one
// mapping fills is an allocation of its own: what is mapped there later resumes it, and keeps the
// stack of the first mapping as its call site. Where a mapping fills only a part (PyTorch's
// expandable segments, whose pages serve any later request), the call site is that of cuMemCreate.
// `o`: the memory, if it is known and was not mapped before.
static inline void ct_live_resume(struct ct_live *l, struct ct_object *mapping,
                                  struct ct_object *o) {
    struct ct_object *r = ct_live_find(l, CT_KIND_RESERVED, mapping->key);
    if (r && r->holds_segment) // it wakes up, also without a block
        ct_live_segment_set(l, mapping, r->device);
    if (r && !r->segment) {
        r->segment = 1;
        r->stack = mapping->stack;
        r->t_ns = mapping->t_ns;
        return;
    }
    if (!r || !o || r->bytes != mapping->bytes || !ct_object_is_counted(l, o))
        return;
    const uint32_t by = o->stack;
    o->resumed = 1;
    o->stack = r->stack;
    if (l->owner_changed)
        l->owner_changed(l->user, o, by);
}

static inline void ct_live_map(struct ct_live *l, const struct ct_event *e, uint64_t number) {
    if (!CT_HAS(e, ptr) || !e->ptr || !CT_HAS(e, bytes))
        return; // arrays, graphics resources and multicast objects are not mapped at an address
    struct ct_object *o = ct_live_find(l, CT_KIND_MAPPING, e->ptr);
    if (o) {
        ct_live_unmap_one(l, o);
        l->replaced++;
    }
    if (!(o = ct_live_add(l, CT_KIND_MAPPING, e->ptr, e, number)))
        return;
    const uint64_t handle = CT_GET(e, handle);
    ct_live_traits(l, o)->link = handle;
    struct ct_object *const memory = ct_live_find(l, CT_KIND_HANDLE, handle);
    const int is_new = memory && !ct_live_traits(l, memory)->maps++; // else it has its owner
    ct_live_resume(l, o, is_new ? memory : NULL);
}

static inline void ct_live_add_reference(struct ct_live *l, unsigned kind, uint64_t key,
                                         const struct ct_event *e, uint64_t number) {
    struct ct_object *o = ct_live_find(l, kind, key);
    struct ct_traits *own = o ? ct_live_traits(l, o) : NULL;
    if (own && (own->refs || own->maps))
        own->refs++; // opened or imported again with the same key
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
    struct ct_object *o =
        ct_live_pool_get(l, e->pool, CT_HAS(e, device) ? e->device : CT_NO_DEVICE);
    if (o && CT_HAS(e, reserved_bytes))
        ct_live_pool_set_reserved(l, o, e->reserved_bytes);
}

// ---- blocks -------------------------------------------------------------------------------------

// The totals of the device that PyTorch reports with every block.
CT_HOT void ct_live_set_reported(struct ct_live *l, const struct ct_event *e) {
    struct ct_live_device *d = ct_live_device(l, CT_HAS(e, device) ? e->device : CT_NO_DEVICE);
    if (!CT_HAS(e, allocated_bytes) || !CT_HAS(e, reserved_bytes))
        return;
    d->reported_allocated = e->allocated_bytes;
    d->reported_reserved = e->reserved_bytes;
    d->reported = 1;
}

CT_HOT void ct_live_free_block(struct ct_live *l, const struct ct_found *f) {
    struct ct_object *o = &f->what->object;
    ct_slot_index_erase(l, f);
    l->of_kind[CT_KIND_BLOCK]--;
    ct_object_count(l, o, CT_KIND_BLOCK, ct_live_traits(l, o), -1);
    ct_object_discard(l, f->slot);
}

// Applies a block-alloc or block-free. The free of a block never fails, so it is final.
CT_HOT void ct_live_apply_block(struct ct_live *l, const struct ct_event *e, uint64_t number,
                                uint64_t hash, const struct ct_found *freed) {
    if (e->op == CT_OP_BLOCK_FREE) {
        if (freed->what)
            ct_live_free_block(l, freed);
        else if (!l->partial)
            l->unknown_blocks++;
    } else if (CT_HAS(e, ptr) && e->ptr) {
        ct_live_add_hashed(l, CT_KIND_BLOCK, e->ptr, hash, e, number);
        ct_live_segment_mark(l, e->ptr, CT_HAS(e, bytes) && e->bytes ? e->bytes : 1,
                             CT_HAS(e, device) ? ct_device_or_none(e->device) : CT_NO_DEVICE);
    }
    ct_live_set_reported(l, e);
}

static inline void ct_live_make(struct ct_live *l, unsigned kind, uint64_t key,
                                const struct ct_event *e, uint64_t number) {
    if (kind == CT_KIND_MAPPING)
        ct_live_map(l, e, number);
    else if (kind == CT_KIND_HANDLE || kind == CT_KIND_IPC)
        ct_live_add_reference(l, kind, key, e, number);
    else
        ct_live_add(l, kind, key, e, number);
}

static inline void ct_live_end(struct ct_live *l, unsigned kind, const struct ct_event *e) {
    const uint64_t key = ct_event_key(e, kind);
    struct ct_object *pool;
    switch (kind) {
    case CT_KIND_HANDLE:
    case CT_KIND_IPC:
        ct_live_drop_reference(l, kind, key);
        break;
    case CT_KIND_MAPPING:
        if (key && CT_HAS(e, bytes))
            ct_live_unmap(l, key, e->bytes);
        break;
    case CT_KIND_RESERVED:
    case CT_KIND_REGISTERED:
        ct_live_free_key(l, kind, key, e);
        break;
    case CT_KIND_POOL:
        // A destroyed pool lives until its last allocation is freed. From now on it reserves
        // nothing beyond that.
        pool = e->op == CT_OP_POOL_DESTROY && CT_HAS(e, pool) ? ct_live_find(l, kind, key) : NULL;
        if (pool)
            ct_live_pool_set_reserved(l, pool, 0);
        break;
    default: // of a graph: it keeps the address; its launches allocate and free the memory
        break;
    }
}

// Applies an event that is no alloc with an address, no free and no block.
CT_COLD void ct_live_apply_other(struct ct_live *l, const struct ct_event *e, uint64_t number) {
    uint64_t key;
    const unsigned made = ct_event_makes(e, &key), ended = ct_op_ends(e->op);
    struct ct_object *o;
    if (made)
        ct_live_make(l, made, key, e, number);
    else if (ended)
        ct_live_end(l, ended, e);
    else if (e->op >= CT_OP_RANGE_PUSH && e->op <= CT_OP_RANGE_END)
        ct_open_ranges_apply(&l->open, e, number);
    else if (e->op == CT_OP_POOL_SAMPLE && CT_HAS(e, pool))
        ct_live_pool_apply_sample(l, e);
    else if (e->op == CT_OP_CONTEXT_DESTROY && CT_HAS(e, context))
        ct_live_end_context(l, e->context);
    else if (e->op == CT_OP_BLOCK_OOM)
        ct_live_set_reported(l, e);
    else if (e->op == CT_OP_RETAIN &&
             (o = ct_live_find(l, CT_KIND_HANDLE, ct_event_key(e, CT_KIND_HANDLE))))
        ct_live_traits(l, o)->refs++;
}

// Applies an event with its number. A failed event (result not 0) changes nothing. `hash` is
// ct_slot_index_hash_event of the event, and `freed` what ct_live_find_freed returned for a free.
CT_HOT void ct_live_apply_at(struct ct_live *l, const struct ct_event *e, uint64_t number,
                             uint64_t hash, const struct ct_found *freed) {
    if (CT_HAS(e, result) && e->result != 0) {
        if (e->op == CT_OP_AMEND)
            ct_tentative_amend(l, e);
        return;
    }
    if (e->op == CT_OP_ALLOC && CT_HAS(e, ptr) && e->ptr)
        ct_live_add_hashed(l, CT_KIND_ADDRESS, e->ptr, hash, e, number);
    else if (e->op == CT_OP_FREE)
        ct_live_free(l, e, freed);
    else if (ct_op_is_block(e->op))
        ct_live_apply_block(l, e, number, hash, freed);
    else
        ct_live_apply_other(l, e, number);
}

// Applies an event with its number.
static inline void ct_live_apply(struct ct_live *l, const struct ct_event *e, uint64_t number) {
    const uint64_t hash = ct_slot_index_hash_event(e);
    struct ct_found freed = {NULL, NULL, 0, 0, CT_NO_SLOT};
    if (e->op == CT_OP_FREE || e->op == CT_OP_BLOCK_FREE)
        freed = ct_live_find_freed(l, e, hash);
    ct_live_apply_at(l, e, number, hash, &freed);
}

#endif
