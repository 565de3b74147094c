// SPDX-License-Identifier: Apache-2.0
// Two small hash tables: numbers by 64-bit key, and numbers of things that are equal by content.
#ifndef CT_TABLE_H
#define CT_TABLE_H

#include "base/heap.h"

static inline uint64_t ct_hash_mix(uint64_t h) {
    h ^= h >> 32;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    h ^= h >> 32;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

static inline uint64_t ct_hash_bytes(const void *data, size_t n) {
    const uint8_t *p = (const uint8_t *)data;
    uint64_t h = n * UINT64_C(0x9E3779B97F4A7C15), word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * UINT64_C(0xFF51AFD7ED558CCD);
        h ^= h >> 32;
    }
    word = 0;
    if (n)
        memcpy(&word, p, n);
    return ct_hash_mix(h ^ word);
}

// ---- number by key: open addressing, keys are never removed -----------------------------------

struct ct_map_entry {
    uint64_t key;
    uint64_t value;
};

struct ct_map {
    struct ct_map_entry *entries;
    uint8_t *used;
    size_t capacity, count;
};

static inline size_t ct_map_slot(const struct ct_map *m, uint64_t key) {
    size_t i = ct_hash_mix(key) & (m->capacity - 1);
    while (m->used[i] && m->entries[i].key != key)
        i = (i + 1) & (m->capacity - 1);
    return i;
}

static inline uint64_t *ct_map_find(const struct ct_map *m, uint64_t key) {
    if (!m->capacity)
        return NULL;
    const size_t i = ct_map_slot(m, key);
    return m->used[i] ? &m->entries[i].value : NULL;
}

// The value of a key; 0 when it is new. Valid until the next call.
// NOLINTBEGIN(clang-analyzer-core.NullDereference): there are entries where there is capacity
static inline uint64_t *ct_map_add(struct ct_map *m, uint64_t key) {
    if (m->count * 2 >= m->capacity) {
        const struct ct_map old = *m;
        m->capacity = old.capacity ? old.capacity * 2 : 64;
        m->entries = ct_heap_alloc_zeroed(m->capacity, sizeof *m->entries);
        m->used = ct_heap_alloc_zeroed(m->capacity, 1);
        for (size_t i = 0; i < old.capacity; i++)
            if (old.used[i]) {
                const size_t s = ct_map_slot(m, old.entries[i].key);
                m->entries[s] = old.entries[i];
                m->used[s] = 1;
            }
        free(old.entries);
        free(old.used);
    }
    const size_t i = ct_map_slot(m, key);
    if (!m->used[i]) {
        m->used[i] = 1;
        m->entries[i] = (struct ct_map_entry){key, 0};
        m->count++;
    }
    return &m->entries[i].value;
}
// NOLINTEND(clang-analyzer-core.NullDereference)

static inline void ct_map_free(struct ct_map *m) {
    free(m->entries);
    free(m->used);
    *m = (struct ct_map){0};
}

// ---- set of numbers by content: the caller hashes and compares ---------------------------------

struct ct_id_set {
    uint32_t *ids; // 0 = empty
    uint32_t *hashes;
    size_t capacity, count;
};

// Slot where a thing with this hash is (same() says so) or would go. Grows first.
static inline uint32_t *ct_id_set_slot(struct ct_id_set *s, uint64_t hash,
                                    int (*same)(const void *owner, uint32_t id, const void *key),
                                    const void *owner, const void *key) {
    if (s->count * 2 >= s->capacity) {
        const struct ct_id_set old = *s;
        s->capacity = old.capacity ? old.capacity * 2 : 64;
        s->ids = ct_heap_alloc_zeroed(s->capacity, sizeof *s->ids);
        s->hashes = ct_heap_alloc_zeroed(s->capacity, sizeof *s->hashes);
        for (size_t i = 0; i < old.capacity; i++) {
            size_t at = old.hashes[i] & (s->capacity - 1);
            if (!old.ids[i])
                continue;
            while (s->ids[at])
                at = (at + 1) & (s->capacity - 1);
            s->ids[at] = old.ids[i];
            s->hashes[at] = old.hashes[i];
        }
        free(old.ids);
        free(old.hashes);
    }
    const uint32_t h = (uint32_t)hash;
    size_t at = h & (s->capacity - 1);
    while (s->ids[at] && !(s->hashes[at] == h && same(owner, s->ids[at], key)))
        at = (at + 1) & (s->capacity - 1);
    if (!s->ids[at]) {
        s->hashes[at] = h;
        s->count++; // the caller fills the slot
    }
    return &s->ids[at];
}

static inline void ct_id_set_free(struct ct_id_set *s) {
    free(s->ids);
    free(s->hashes);
    *s = (struct ct_id_set){0};
}

#endif
