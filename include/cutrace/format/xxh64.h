// SPDX-License-Identifier: Apache-2.0
// XXH64 with seed 0: the checksum of a chunk's prefix. The algorithm is Yann Collet's and public:
// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
#ifndef CUTRACE_XXH64_H
#define CUTRACE_XXH64_H

#include <stddef.h>
#include <stdint.h>

#define CT_XXH64_P1 UINT64_C(0x9E3779B185EBCA87)
#define CT_XXH64_P2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define CT_XXH64_P3 UINT64_C(0x165667B19E3779F9)
#define CT_XXH64_P4 UINT64_C(0x85EBCA77C2B2AE63)
#define CT_XXH64_P5 UINT64_C(0x27D4EB2F165667C5)

static inline uint64_t ct_xxh64_rotate(uint64_t v, int n) {
    return v << n | v >> (64 - n);
}

// Little-endian on any machine.
static inline uint64_t ct_xxh64_read(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static inline uint64_t ct_xxh64_round(uint64_t lane, uint64_t input) {
    return ct_xxh64_rotate(lane + input * CT_XXH64_P2, 31) * CT_XXH64_P1;
}

static inline uint64_t ct_xxh64(const void *data, size_t n) {
    const uint8_t *p = (const uint8_t *)data, *const end = p + n;
    uint64_t h = CT_XXH64_P5;
    if (n >= 32) {
        uint64_t lane[4] = {CT_XXH64_P1 + CT_XXH64_P2, CT_XXH64_P2, 0, 0 - CT_XXH64_P1};
        for (; end - p >= 32; p += 32)
            for (int i = 0; i < 4; i++)
                lane[i] = ct_xxh64_round(lane[i], ct_xxh64_read(p + 8 * i, 8));
        h = ct_xxh64_rotate(lane[0], 1) + ct_xxh64_rotate(lane[1], 7) +
            ct_xxh64_rotate(lane[2], 12) + ct_xxh64_rotate(lane[3], 18);
        for (int i = 0; i < 4; i++)
            h = (h ^ ct_xxh64_round(0, lane[i])) * CT_XXH64_P1 + CT_XXH64_P4;
    }
    h += n;
    for (; end - p >= 8; p += 8) {
        h ^= ct_xxh64_round(0, ct_xxh64_read(p, 8));
        h = ct_xxh64_rotate(h, 27) * CT_XXH64_P1 + CT_XXH64_P4;
    }
    if (end - p >= 4) {
        h ^= ct_xxh64_read(p, 4) * CT_XXH64_P1;
        h = ct_xxh64_rotate(h, 23) * CT_XXH64_P2 + CT_XXH64_P3;
        p += 4;
    }
    for (; p < end; p++)
        h = ct_xxh64_rotate(h ^ *p * CT_XXH64_P5, 11) * CT_XXH64_P1;
    h = (h ^ h >> 33) * CT_XXH64_P2;
    h = (h ^ h >> 29) * CT_XXH64_P3;
    return h ^ h >> 32;
}

#endif
