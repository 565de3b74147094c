// SPDX-License-Identifier: Apache-2.0
// Traits: what objects have in common (context, thread, api, flags, space). They are interned, that
// is stored once for all objects that share them, and counted by reference. Kinds with references,
// mappings or a link have traits of their own.
#ifndef CUTRACE_TRAITS_H
#define CUTRACE_TRAITS_H

#include <cutrace/model/slot_index.h>

static inline int ct_traits_equal(const struct ct_traits *a, const struct ct_traits *b) {
    return a->context == b->context && a->link == b->link && a->thread == b->thread &&
           a->api == b->api && a->flags == b->flags && a->space == b->space;
}

// The fields that are the traits of an address or a block.
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
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
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

#endif
