// SPDX-License-Identifier: Apache-2.0
// Finds the id (1 and up) of a thing by its content, so that equal things are stored once. The
// caller stores the things, hashes them and compares them; ids are never removed.
#ifndef CT_ID_SET_H
#define CT_ID_SET_H

#include <cutrace/format/assert.h>

#include "base/heap.h"

struct ct_id_set {
    uint32_t *ids; // 0: the slot is empty
    uint32_t *hashes;
    size_t capacity, count; // capacity: 0 or a power of 2
};

static inline void ct_id_set_grow(struct ct_id_set *s) {
    const struct ct_id_set old = *s;
    s->capacity = old.capacity ? old.capacity * 2 : 64;
    s->ids = ct_heap_alloc_zeroed(s->capacity, sizeof *s->ids);
    s->hashes = ct_heap_alloc_zeroed(s->capacity, sizeof *s->hashes);
    for (size_t i = 0; i < old.capacity; i++) {
        size_t slot = old.hashes[i] & (s->capacity - 1);
        if (!old.ids[i])
            continue;
        while (s->ids[slot])
            slot = (slot + 1) & (s->capacity - 1);
        s->ids[slot] = old.ids[i];
        s->hashes[slot] = old.hashes[i];
    }
    free(old.ids);
    free(old.hashes);
}

// The slot of the thing that `key` describes. Where it holds 0 the thing is new, and the caller
// must write its id there before the next call. `same` compares the thing of an id with the key.
static inline uint32_t *ct_id_set_slot(struct ct_id_set *s, uint64_t hash,
                                       int (*same)(const void *owner, uint32_t id, const void *key),
                                       const void *owner, const void *key) {
    if (s->count * 2 >= s->capacity)
        ct_id_set_grow(s);
    const uint32_t h = (uint32_t)hash;
    size_t slot = h & (s->capacity - 1);
    CT_ASSERT(s->count < s->capacity); // or the search would not end
    while (s->ids[slot] && !(s->hashes[slot] == h && same(owner, s->ids[slot], key)))
        slot = (slot + 1) & (s->capacity - 1);
    if (!s->ids[slot]) {
        s->hashes[slot] = h;
        s->count++;
    }
    return &s->ids[slot];
}

// The id of the thing that `key` describes; 0: there is none.
static inline uint32_t ct_id_set_find(const struct ct_id_set *s, uint64_t hash,
                                      int (*same)(const void *owner, uint32_t id, const void *key),
                                      const void *owner, const void *key) {
    const uint32_t h = (uint32_t)hash;
    if (!s->capacity)
        return 0;
    size_t slot = h & (s->capacity - 1);
    while (s->ids[slot] && !(s->hashes[slot] == h && same(owner, s->ids[slot], key)))
        slot = (slot + 1) & (s->capacity - 1);
    return s->ids[slot];
}

static inline void ct_id_set_free(struct ct_id_set *s) {
    free(s->ids);
    free(s->hashes);
    *s = (struct ct_id_set){0};
}

#endif
