// SPDX-License-Identifier: Apache-2.0
// The objects of a state: what they have in common, how they join and leave, and the sums that
// stand for many of them.
#ifndef CUTRACE_OBJECTS_H
#define CUTRACE_OBJECTS_H

#include <cutrace/model/slot_index.h>

// ---- traits -------------------------------------------------------------------------------------

// Traits: what objects have in common (context, thread, api, flags, space). They are interned, that
// is stored once for all objects that share them, and counted by reference. Kinds with references,
// mappings or a link have traits of their own.

static inline int ct_traits_equal(const struct ct_traits *a, const struct ct_traits *b) {
    return a->context == b->context && a->link == b->link && a->thread == b->thread &&
           a->api == b->api && a->flags == b->flags && a->space == b->space;
}

// The fields that are the traits of an address or a block.
#define CT_TRAITS_FIELDS \
    (CT_BIT(context) | CT_BIT(pool) | CT_BIT(thread) | CT_BIT(api) | CT_BIT(flags) | CT_BIT(space))

static inline struct ct_traits ct_traits_from_event(const struct ct_event *e, unsigned kind) {
    struct ct_traits o = {0};
    o.context = CT_GET(e, context);
    if (kind == CT_KIND_ADDRESS || kind == CT_KIND_BLOCK)
        o.link = CT_GET(e, pool);
    else if (kind == CT_KIND_SITE_SUM)
        o.link = CT_HAS(e, count) ? e->count : 1;
    o.thread = CT_GET(e, thread);
    o.api = CT_GET(e, api);
    o.flags = CT_GET(e, flags);
    o.space = (uint16_t)(CT_HAS(e, space) ? e->space : CT_SPACE_UNKNOWN);
    return o;
}

static inline int ct_traits_are_in_slot(const union ct_slot *slot, const void *like) {
    return slot->traits.kind == CT_KIND_SHARED_TRAITS &&
           ct_traits_equal(&slot->traits, (const struct ct_traits *)like);
}

// The slot of shared traits with this content, created if there is none; CT_NO_SLOT without memory.
CT_COLD uint32_t ct_traits_intern(struct ct_live *l, const struct ct_traits *like) {
    const uint64_t hash = ct_slot_index_hash_traits(like);
    const struct ct_found f = ct_slot_index_find(l, hash, ct_traits_are_in_slot, like);
    uint32_t slot = f.slot;
    if (!f.what) {
        struct ct_slot_index_part *p = ct_slot_index_part(l, hash);
        if (ct_slot_index_reserve(l, p) ||
            (slot = ct_live_alloc_slot(l, CT_KIND_SHARED_TRAITS)) == CT_NO_SLOT)
            return CT_NO_SLOT;
        struct ct_traits *o = &ct_live_slot(l, slot)->traits;
        *o = *like;
        o->kind = CT_KIND_SHARED_TRAITS;
        ct_slot_index_insert(p, hash, slot);
    }
    return slot;
}

CT_COLD void ct_traits_destroy(struct ct_live *l, uint32_t slot) {
    const struct ct_traits *o = &ct_live_slot(l, slot)->traits;
    if (o->kind == CT_KIND_SHARED_TRAITS) {
        const struct ct_found f =
            ct_slot_index_find(l, ct_slot_index_hash_traits(o), ct_traits_are_in_slot, o);
        ct_slot_index_erase(l, &f);
        for (unsigned i = 0; i < CT_RECENT_TRAITS; i++)
            if (l->recent[i].slot == slot)
                l->recent[i].match.present = 0;
    }
    ct_live_free_slot(l, slot);
}

CT_HOT void ct_traits_release(struct ct_live *l, uint32_t slot) {
    struct ct_traits *o = &ct_live_slot(l, slot)->traits;
    CT_ASSERT(o->kind != CT_KIND_SHARED_TRAITS || o->refs);
    if (o->kind != CT_KIND_SHARED_TRAITS || !--o->refs)
        ct_traits_destroy(l, slot);
}

static inline int ct_kind_has_own_traits(unsigned kind) {
    return kind == CT_KIND_HANDLE || kind == CT_KIND_MAPPING || kind == CT_KIND_IPC ||
           kind == CT_KIND_POOL || kind == CT_KIND_SITE_SUM;
}

// A slot with traits for an object: shared ones or, for some kinds, its own. CT_NO_SLOT without
// memory.
CT_COLD uint32_t ct_traits_acquire(struct ct_live *l, unsigned kind, const struct ct_traits *like) {
    const int own = ct_kind_has_own_traits(kind);
    const uint32_t slot =
        own ? ct_live_alloc_slot(l, CT_KIND_OWN_TRAITS) : ct_traits_intern(l, like);
    if (slot == CT_NO_SLOT)
        return slot;
    struct ct_traits *o = &ct_live_slot(l, slot)->traits;
    if (own) {
        *o = *like;
        o->kind = CT_KIND_OWN_TRAITS;
    } else {
        o->refs++;
    }
    return slot;
}

// ct_traits_acquire for an address whose traits are not the recent ones of its thread.
CT_COLD uint32_t ct_traits_acquire_new(struct ct_live *l, const struct ct_event *e,
                                       struct ct_recent_traits *recent) {
    const struct ct_traits traits = ct_traits_from_event(e, CT_KIND_ADDRESS);
    const uint32_t slot = ct_traits_acquire(l, CT_KIND_ADDRESS, &traits);
    if (slot == CT_NO_SLOT)
        return slot;
    ct_match_set(&recent->match, e, CT_TRAITS_FIELDS, CT_TRAITS_FIELDS);
    recent->traits = &ct_live_slot(l, slot)->traits;
    return recent->slot = slot;
}

// ct_traits_acquire for the object that an event creates. Most events create an address or a block
// with the same traits as the thread's last one; addresses and blocks share their traits.
CT_HOT uint32_t ct_traits_acquire_for_event(struct ct_live *l, unsigned kind,
                                            const struct ct_event *e) {
    const uint32_t thread = CT_GET(e, thread);
    struct ct_recent_traits *recent = &l->recent[thread % CT_RECENT_TRAITS];
    if (kind != CT_KIND_ADDRESS && kind != CT_KIND_BLOCK) {
        const struct ct_traits traits = ct_traits_from_event(e, kind);
        return ct_traits_acquire(l, kind, &traits);
    }
    if (!ct_match_test(&recent->match, e, CT_TRAITS_FIELDS))
        return ct_traits_acquire_new(l, e, recent);
    recent->traits->refs++;
    return recent->slot;
}

// ---- objects ------------------------------------------------------------------------------------

// Objects join and leave: the index, the totals of their device and the pools they are drawn from.

enum { CT_FLAGS_WITHOUT_MEMORY = CT_FLAG_FOREIGN | CT_FLAG_MULTICAST | CT_FLAG_DEFERRED };

// Kinds that count in the live_* totals of their device or, as host memory, in host_bytes.
CT_HOT int ct_kind_is_memory(unsigned kind) {
    return kind == CT_KIND_ADDRESS || kind == CT_KIND_ARRAY || kind == CT_KIND_HANDLE ||
           kind == CT_KIND_SITE_SUM;
}

// Whether the object counts in the live_* totals of its device.
static inline int ct_object_is_counted(const struct ct_live *l, const struct ct_object *o) {
    const struct ct_traits *traits = ct_live_traits(l, o);
    return ct_kind_is_memory(o->kind) && traits->space != CT_SPACE_HOST &&
           !(traits->flags & CT_FLAGS_WITHOUT_MEMORY);
}

static inline int ct_object_is_host(const struct ct_live *l, const struct ct_object *o) {
    return ct_kind_is_memory(o->kind) && ct_live_traits(l, o)->space == CT_SPACE_HOST;
}

// Whether the memory is that of a device: neither host nor managed memory.
CT_HOT int ct_traits_are_on_device(const struct ct_traits *traits) {
    return traits->space != CT_SPACE_HOST && traits->space != CT_SPACE_MANAGED;
}

static inline int ct_object_is_on_device(const struct ct_live *l, const struct ct_object *o) {
    return ct_traits_are_on_device(ct_live_traits(l, o));
}

// Number of allocations that an object stands for.
static inline uint64_t ct_object_allocations(const struct ct_live *l, const struct ct_object *o) {
    return o->kind == CT_KIND_SITE_SUM ? ct_live_traits(l, o)->link : 1;
}

// A reservation or a mapping comes (+1) or goes (-1): counts what sleeps.
CT_COLD void ct_object_count_asleep(struct ct_live *l, const struct ct_object *o, unsigned kind,
                                    int sign) {
    const int is_mapping = kind == CT_KIND_MAPPING;
    const struct ct_object *mapping = is_mapping ? o : ct_live_find(l, CT_KIND_MAPPING, o->key);
    const struct ct_object *r = is_mapping ? ct_live_find(l, CT_KIND_RESERVED, o->key) : o;
    if (r && r->holds_segment && (is_mapping || !mapping))
        ct_live_device(l, r->device)->asleep_segment_bytes +=
            (sign < 0) == is_mapping ? r->bytes : 0 - r->bytes;
}

// Adds the object to the totals (+1) or subtracts it (-1). The caller mostly knows the kind at
// compile time.
CT_HOT void ct_object_count(struct ct_live *l, struct ct_object *o, unsigned kind,
                            const struct ct_traits *traits, int sign) {
    const uint64_t bytes = sign < 0 ? 0 - o->bytes : o->bytes;
    if (l->address_changed && kind == CT_KIND_ADDRESS)
        l->address_changed(l->user, o, traits, sign);
    if (l->region_changed && (kind == CT_KIND_BLOCK || kind == CT_KIND_ADDRESS ||
                              kind == CT_KIND_MAPPING || kind == CT_KIND_RESERVED))
        l->region_changed(l->region_user, o, traits, sign);
    if (kind == CT_KIND_BLOCK) {
        struct ct_live_device *d = ct_live_device(l, o->device);
        d->block_bytes += bytes;
        d->blocks += (uint64_t)(int64_t)sign;
    }
    if (kind == CT_KIND_MAPPING || kind == CT_KIND_RESERVED)
        ct_object_count_asleep(l, o, kind, sign);
    if (!ct_kind_is_memory(kind))
        return;
    if (traits->space == CT_SPACE_HOST) {
        l->host_bytes += bytes;
        return;
    }
    if (traits->flags & CT_FLAGS_WITHOUT_MEMORY)
        return;
    struct ct_live_device *d = ct_live_device(l, o->device);
    const uint64_t number = kind == CT_KIND_SITE_SUM ? traits->link : 1;
    d->live_bytes += bytes;
    d->live_allocations += sign < 0 ? 0 - number : number;
    if (traits->space == CT_SPACE_MANAGED)
        d->managed_bytes += bytes;
    else if (traits->flags & CT_FLAG_ASYNC)
        d->pooled_bytes += bytes;
    if (l->total_changed)
        l->total_changed(l->user, o, sign);
}

static inline uint64_t ct_live_pool_held_bytes(const struct ct_live *l,
                                               const struct ct_object *pool) {
    const uint64_t reserved = ct_live_traits(l, pool)->link;
    return pool->bytes > reserved ? pool->bytes : reserved;
}

// Creates an object that has a key and traits only. Takes over the reference to the traits,
// CT_NO_SLOT included. NULL without memory.
CT_HOT struct ct_object *ct_object_insert(struct ct_live *l, unsigned kind, uint64_t key,
                                          uint64_t hash, uint32_t traits) {
    struct ct_slot_index_part *p = ct_slot_index_part(l, hash);
    const uint32_t slot = traits == CT_NO_SLOT ? traits : ct_live_alloc_slot(l, kind);
    if (slot == CT_NO_SLOT || ct_slot_index_reserve(l, p)) {
        if (slot != CT_NO_SLOT)
            ct_live_free_slot(l, slot);
        if (traits != CT_NO_SLOT)
            ct_traits_release(l, traits);
        l->overflow++;
        return NULL;
    }
    struct ct_object *o = &ct_live_slot(l, slot)->object;
    o->key = key;
    o->traits = traits;
    ct_slot_index_insert(p, hash, slot);
    l->of_kind[kind]++;
    return o;
}

CT_COLD struct ct_object *ct_live_pool_create(struct ct_live *l, uint64_t pool, int device) {
    const struct ct_traits nothing = {0};
    struct ct_object *o =
        ct_object_insert(l, CT_KIND_POOL, pool, ct_slot_index_hash(pool, CT_KIND_POOL),
                         ct_traits_acquire(l, CT_KIND_POOL, &nothing));
    if (o)
        o->device = (int8_t)ct_device_or_none(device);
    return o;
}

// The pool's object. Created at the first event of the pool, because no call creates default pools.
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

// Subtracts what the pool holds from its device's totals before a change (-1) and adds it after the
// change (+1).
static inline void ct_live_pool_count(struct ct_live *l, const struct ct_object *pool, int sign) {
    const uint64_t holds = ct_live_pool_held_bytes(l, pool);
    ct_live_device(l, pool->device)->pool_bytes += sign < 0 ? 0 - holds : holds;
}

CT_HOT uint64_t ct_live_pool_key(const struct ct_object *o, const struct ct_traits *traits) {
    // An allocation without a pool comes from the device's default pool. Its key is one that no
    // pointer has.
    return traits->link ? traits->link : (uint64_t)(o->device + 1);
}

CT_HOT void ct_live_pool_draw(struct ct_live *l, const struct ct_object *member,
                              const struct ct_traits *traits, int sign) {
    struct ct_object *pool = ct_live_pool_get(l, ct_live_pool_key(member, traits), member->device);
    if (!pool)
        return;
    const uint64_t held = ct_live_pool_held_bytes(l, pool);
    pool->bytes += sign < 0 ? 0 - member->bytes : member->bytes;
    ct_live_device(l, pool->device)->pool_bytes += ct_live_pool_held_bytes(l, pool) - held;
}

// ct_object_count for an address, with its pool.
CT_HOT void ct_object_count_address(struct ct_live *l, struct ct_object *o,
                                    const struct ct_traits *traits, int sign) {
    ct_object_count(l, o, CT_KIND_ADDRESS, traits, sign);
    if (traits->flags & CT_FLAG_ASYNC && traits->space == CT_SPACE_DEVICE)
        ct_live_pool_draw(l, o, traits, sign);
}

// Removes an object from the index and the totals. Its slot stays.
CT_HOT void ct_object_withdraw(struct ct_live *l, const struct ct_found *f) {
    struct ct_object *o = &f->what->object;
    const struct ct_traits *traits = ct_live_traits(l, o);
    ct_slot_index_erase(l, f); // first, because the calls below may move entries
    l->of_kind[o->kind]--;
    if (o->kind == CT_KIND_ADDRESS) {
        ct_object_count_address(l, o, traits, -1);
        return;
    }
    ct_object_count(l, o, o->kind, traits, -1);
    if (o->kind == CT_KIND_POOL)
        ct_live_pool_count(l, o, -1);
}

// Frees the slot of a withdrawn object.
CT_HOT void ct_object_discard(struct ct_live *l, uint32_t slot) {
    ct_traits_release(l, ct_live_slot(l, slot)->object.traits);
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

// ---- sums by call site --------------------------------------------------------------------------

// After an inexact checkpoint (checkpoint.h), a reader knows of the older
// allocations only how many there are for each call site and how large they are together. A free of
// such an allocation describes it.

// The key of a sum. Allocations from pools have sums of their own.
static inline uint64_t ct_site_sum_key(int device, unsigned space, uint32_t stack, int async) {
    return stack | (uint64_t)(device + 1) << 32 | (uint64_t)space << 40 | (uint64_t)async << 60;
}

// Adds to an event that frees the object what a reader needs that has it in a sum only.
static inline void ct_site_sum_describe(const struct ct_live *l, const struct ct_object *o,
                                        struct ct_event *e) {
    const struct ct_traits *traits = ct_live_traits(l, o);
    CT_SET(e, bytes, o->bytes);
    CT_SET_KNOWN(e, stack, o->stack);
    if (o->device != CT_NO_DEVICE)
        CT_SET(e, device, (int)o->device);
    CT_SET_KNOWN(e, space, traits->space);
    if (traits->flags & CT_FLAG_ASYNC)
        CT_SET(e, pool, ct_live_pool_key(o, ct_live_traits(l, o)));
}

// The sum that contains the freed allocation, if the event describes it; else NULL.
static inline struct ct_object *ct_site_sum_find(const struct ct_live *l,
                                                 const struct ct_event *e) {
    if (!l->of_kind[CT_KIND_SITE_SUM] || !CT_HAS(e, bytes))
        return NULL;
    const int device = CT_HAS(e, device) ? ct_device_or_none(e->device) : CT_NO_DEVICE;
    const unsigned space = (uint16_t)(CT_HAS(e, space) ? e->space : CT_SPACE_UNKNOWN);
    // Without a sum for its stack, the allocation is in the sum of the call sites that had no room.
    for (int without = 0; without < 2; without++) {
        const uint32_t stack = CT_HAS(e, stack) && !without ? e->stack : 0;
        struct ct_object *o = ct_live_find(l, CT_KIND_SITE_SUM,
                                           ct_site_sum_key(device, space, stack, CT_HAS(e, pool)));
        if (o && o->bytes >= e->bytes && ct_live_traits(l, o)->link)
            return o;
    }
    return NULL;
}

// Subtracts the freed allocation from its sum.
static inline void ct_site_sum_subtract(struct ct_live *l, struct ct_object *sum,
                                        const struct ct_event *e) {
    struct ct_object *pool = CT_HAS(e, pool) ? ct_live_find(l, CT_KIND_POOL, e->pool) : NULL;
    struct ct_object one = *sum;
    one.kind = CT_KIND_ARRAY; // a single allocation that has no address
    one.bytes = e->bytes;
    ct_object_count(l, &one, one.kind, ct_live_traits(l, &one), -1);
    CT_ASSERT(sum->bytes >= e->bytes && ct_live_traits(l, sum)->link);
    sum->bytes -= e->bytes;
    if (!--ct_live_traits(l, sum)->link)
        ct_object_remove(l, sum);
    if (pool && pool->bytes >= e->bytes && CT_HAS(e, space) && e->space == CT_SPACE_DEVICE) {
        ct_live_pool_count(l, pool, -1);
        pool->bytes -= e->bytes;
        ct_live_pool_count(l, pool, +1);
    }
}

#endif
