// SPDX-License-Identifier: Apache-2.0
// The hash of a stack, of all its words at once.
#include "store/stack_hash.h"

#include <string.h>

static void step(struct ct_stack_hash *h, const uint64_t *f) {
    ct_stack_hash_step(h, f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]);
}

uint64_t ct_stack_hash_words(const uint64_t *words, size_t n) {
    struct ct_stack_hash h = ct_stack_hash_begin(n);
    size_t i = 0;
    for (; i + CT_STACK_HASH_STEP <= n; i += CT_STACK_HASH_STEP)
        step(&h, words + i);
    if (i < n) {
        uint64_t rest[CT_STACK_HASH_STEP] = {0};
        memcpy(rest, words + i, (n - i) * sizeof *words);
        step(&h, rest);
    }
    return ct_stack_hash_end(&h);
}
