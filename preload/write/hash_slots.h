// SPDX-License-Identifier: Apache-2.0
// A hash table of indexes into an array of the caller's, with linear probing. Drainer only.
//
// It grows, because each of a few entries in a large table would touch a page of its own.
#ifndef CT_WRITE_HASH_SLOTS_H
#define CT_WRITE_HASH_SLOTS_H

#include <stdint.h>

// at[hash & (room - 1)], or one of the next slots, is index + 1 of an entry; 0 ends the search.
struct ct_hash_slots {
    uint32_t *at;
    uint32_t room; // a power of two; half of it is used at most
};

// Makes room for one more entry than `used`. hash_of gives the hash of an entry. Returns 0, or
// -ENOMEM.
int ct_hash_slots_reserve(struct ct_hash_slots *slots, uint32_t used,
                          uint32_t (*hash_of)(uint32_t index));

// Removes all entries.
void ct_hash_slots_clear(struct ct_hash_slots *slots);

#endif
