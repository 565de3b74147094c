// SPDX-License-Identifier: Apache-2.0
// From the address of a live block of the trace to that block in each model: a hash table with
// removal (linear probing; entries move back).
#ifndef CT_BLOCK_IDS_H
#define CT_BLOCK_IDS_H

#include "base/hash.h"
#include "base/heap.h"

enum { CT_BLOCK_IDS = 8 };

struct ct_block_id {
    uint64_t address; // 0: empty
    uint32_t in[CT_BLOCK_IDS];
};

struct ct_block_ids {
    struct ct_block_id *slots;
    size_t capacity, count; // capacity: 0 or a power of 2, at least twice the count
};

static inline struct ct_block_id *ct_block_ids_find(const struct ct_block_ids *t,
                                                    uint64_t address) {
    if (!t->capacity)
        return NULL;
    size_t i = ct_hash_mix(address) & (t->capacity - 1);
    while (t->slots[i].address && t->slots[i].address != address)
        i = (i + 1) & (t->capacity - 1);
    return t->slots[i].address ? &t->slots[i] : NULL;
}

// Returns the entry of an address (not 0) that has none yet. Valid until the next call.
static inline struct ct_block_id *ct_block_ids_add(struct ct_block_ids *t, uint64_t address) {
    if (t->count * 2 >= t->capacity) {
        const struct ct_block_ids old = *t;
        t->capacity = old.capacity ? old.capacity * 2 : 1024;
        t->slots = ct_heap_alloc_zeroed(t->capacity, sizeof *t->slots);
        t->count = 0;
        for (size_t i = 0; i < old.capacity; i++)
            if (old.slots[i].address)
                *ct_block_ids_add(t, old.slots[i].address) = old.slots[i];
        free(old.slots);
    }
    size_t i = ct_hash_mix(address) & (t->capacity - 1);
    while (t->slots[i].address)
        i = (i + 1) & (t->capacity - 1);
    t->slots[i].address = address;
    t->count++;
    return &t->slots[i];
}

static inline void ct_block_ids_remove(struct ct_block_ids *t, struct ct_block_id *entry) {
    const size_t mask = t->capacity - 1;
    size_t hole = (size_t)(entry - t->slots);
    for (size_t i = (hole + 1) & mask; t->slots[i].address; i = (i + 1) & mask) {
        const size_t home = ct_hash_mix(t->slots[i].address) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            t->slots[hole] = t->slots[i];
            hole = i;
        }
    }
    t->slots[hole].address = 0;
    t->count--;
}

#endif
