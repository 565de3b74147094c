// SPDX-License-Identifier: Apache-2.0
// The hash of a stack: a function of its frames (words of cutrace/format/journal.h) that a caller
// can compute while it collects them, in steps of CT_STACK_HASH_STEP words, the last of which zeros
// fill up. Each two words cost one multiplication; the four multiplications of a step do not depend
// on each other. Never 0.
#ifndef CT_STORE_STACK_HASH_H
#define CT_STORE_STACK_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ct_stack_hash {
    uint64_t lane[4];
};
#define CT_STACK_HASH_STEP 8

static inline uint64_t ct_stack_hash_mix(uint64_t a, uint64_t b) {
    __extension__ const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline struct ct_stack_hash ct_stack_hash_begin(size_t n) {
    return (struct ct_stack_hash){{n, UINT64_C(0xE7037ED1A0B428DB), UINT64_C(0x8EBC6AF09C88C6E3),
                                   UINT64_C(0x589965CC75374CC3)}};
}

static inline void ct_stack_hash_step(struct ct_stack_hash *h, uint64_t a, uint64_t b, uint64_t c,
                                      uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t i) {
    const uint64_t k = UINT64_C(0xA0761D6478BD642F);
    h->lane[0] = ct_stack_hash_mix(a ^ k, b ^ h->lane[0]);
    h->lane[1] = ct_stack_hash_mix(c ^ k, d ^ h->lane[1]);
    h->lane[2] = ct_stack_hash_mix(e ^ k, f ^ h->lane[2]);
    h->lane[3] = ct_stack_hash_mix(g ^ k, i ^ h->lane[3]);
}

static inline uint64_t ct_stack_hash_end(const struct ct_stack_hash *h) {
    const uint64_t all = ct_stack_hash_mix(h->lane[0] ^ h->lane[1] ^ UINT64_C(0x1D8E4E27C47D124F),
                                           h->lane[2] ^ h->lane[3] ^ UINT64_C(0xEB44ACCAB455D165));
    return all | !all;
}

static inline void ct_stack_hash_step_at(struct ct_stack_hash *h, const uint64_t *f) {
    ct_stack_hash_step(h, f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]);
}

// The hash of n words at once.
static inline uint64_t ct_stack_hash_words(const uint64_t *words, size_t n) {
    struct ct_stack_hash h = ct_stack_hash_begin(n);
    size_t i = 0;
    for (; i + CT_STACK_HASH_STEP <= n; i += CT_STACK_HASH_STEP)
        ct_stack_hash_step_at(&h, words + i);
    if (i < n) {
        uint64_t rest[CT_STACK_HASH_STEP] = {0};
        memcpy(rest, words + i, (n - i) * sizeof *words);
        ct_stack_hash_step_at(&h, rest);
    }
    return ct_stack_hash_end(&h);
}

#endif
