// SPDX-License-Identifier: Apache-2.0
// Hashes for tables in memory. They may differ between versions: nothing writes them to a file.
#ifndef CT_HASH_H
#define CT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

#endif
