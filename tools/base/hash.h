// SPDX-License-Identifier: Apache-2.0
// Hashes for tables in memory. Each process draws a seed, so that a file cannot be made whose keys
// collide: nothing that is shown or written may depend on one, or on the order of a table.
#ifndef CT_HASH_H
#define CT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Random since before main; the second one is odd.
extern uint64_t ct_hash_seed[2];

// Every bit of the product counts: its upper half is nothing that low bits alone decide, and its
// lower half nothing that high ones do.
static inline uint64_t ct_hash_fold(uint64_t a, uint64_t b) {
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t ct_hash_mix(uint64_t h) {
    h = ct_hash_fold(h ^ ct_hash_seed[0], ct_hash_seed[1]);
    return ct_hash_fold(h ^ ct_hash_seed[1], UINT64_C(0xD6E8FEB86659FD93));
}

static inline uint64_t ct_hash_bytes(const void *data, size_t n) {
    const uint8_t *p = (const uint8_t *)data;
    uint64_t h = n, word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = ct_hash_fold(h ^ word ^ ct_hash_seed[0], ct_hash_seed[1]);
    }
    word = 0;
    if (n)
        memcpy(&word, p, n);
    return ct_hash_mix(h ^ word);
}

#endif
