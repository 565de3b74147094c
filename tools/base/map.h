// SPDX-License-Identifier: Apache-2.0
// A hash table from 64-bit keys to 64-bit values: open addressing with linear probing, at most half
// full.
#ifndef CT_MAP_H
#define CT_MAP_H

#include <cutrace/format/assert.h>

#include "base/hash.h"
#include "base/heap.h"

struct ct_map_entry {
    uint64_t key;
    uint64_t value;
};

struct ct_map {
    struct ct_map_entry *entries;
    uint8_t *used;
    size_t capacity, count; // capacity: 0 or a power of 2
};

static inline size_t ct_map_slot(const struct ct_map *m, uint64_t key) {
    CT_ASSERT(m->count < m->capacity); // or the search would not end
    size_t i = ct_hash_mix(key) & (m->capacity - 1);
    while (m->used[i] && m->entries[i].key != key)
        i = (i + 1) & (m->capacity - 1);
    return i;
}

// The value of a key, or NULL. Valid until the next ct_map_add.
static inline uint64_t *ct_map_find(const struct ct_map *m, uint64_t key) {
    if (!m->capacity)
        return NULL;
    const size_t i = ct_map_slot(m, key);
    return m->used[i] ? &m->entries[i].value : NULL;
}

// NOLINTBEGIN(clang-analyzer-core.NullDereference): there are entries where there is capacity
static inline void ct_map_grow(struct ct_map *m) {
    const struct ct_map old = *m;
    m->capacity = old.capacity ? old.capacity * 2 : 64;
    m->entries = ct_heap_alloc_zeroed(m->capacity, sizeof *m->entries);
    m->used = ct_heap_alloc_zeroed(m->capacity, 1);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.used[i]) {
            const size_t slot = ct_map_slot(m, old.entries[i].key);
            m->entries[slot] = old.entries[i];
            m->used[slot] = 1;
        }
    free(old.entries);
    free(old.used);
}

// The value of a key, which is added with value 0 if it is new. Valid until the next call.
static inline uint64_t *ct_map_add(struct ct_map *m, uint64_t key) {
    if (m->count * 2 >= m->capacity)
        ct_map_grow(m);
    const size_t i = ct_map_slot(m, key);
    if (!m->used[i]) {
        m->used[i] = 1;
        m->entries[i] = (struct ct_map_entry){key, 0};
        m->count++;
    }
    return &m->entries[i].value;
}
// NOLINTEND(clang-analyzer-core.NullDereference)

// Removes a key that is there. What lies after it moves back, so that every search still finds it.
static inline void ct_map_remove(struct ct_map *m, uint64_t key) {
    const size_t mask = m->capacity - 1;
    size_t hole = ct_map_slot(m, key);
    CT_ASSERT(m->used[hole]);
    for (size_t i = (hole + 1) & mask; m->used[i]; i = (i + 1) & mask) {
        const size_t home = ct_hash_mix(m->entries[i].key) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->entries[hole] = m->entries[i];
            hole = i;
        }
    }
    m->used[hole] = 0;
    m->count--;
}

static inline void ct_map_free(struct ct_map *m) {
    free(m->entries);
    free(m->used);
    *m = (struct ct_map){0};
}

#endif
