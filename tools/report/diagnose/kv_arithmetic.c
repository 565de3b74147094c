// SPDX-License-Identifier: Apache-2.0
#include "diagnose/kv_arithmetic.h"

static uint64_t multiply(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t ct_kv_token_bytes(const struct ct_kv_layout *l) {
    return multiply(multiply(multiply(2, l->layers), multiply(l->heads, l->head_size)),
                    l->element_bytes);
}

uint64_t ct_kv_block_bytes(const struct ct_kv_layout *l) {
    return multiply(ct_kv_token_bytes(l), l->block_tokens);
}

uint64_t ct_kv_blocks_of(uint64_t tokens, uint64_t block_tokens) {
    return block_tokens ? tokens / block_tokens + (tokens % block_tokens != 0) : 0;
}

void ct_kv_waste_add(struct ct_kv_waste *w, const uint64_t *lengths, size_t count,
                     uint64_t block_tokens) {
    for (size_t i = 0; i < count && block_tokens; i++) {
        const uint64_t rest = lengths[i] % block_tokens;
        w->tokens = sum(w->tokens, lengths[i]);
        w->blocks = sum(w->blocks, ct_kv_blocks_of(lengths[i], block_tokens));
        w->partly_blocks += rest != 0;
        w->empty_tokens = sum(w->empty_tokens, rest ? block_tokens - rest : 0);
    }
}

uint64_t ct_kv_last_block_empty(uint64_t tokens, uint64_t block_tokens) {
    const uint64_t rest = block_tokens ? tokens % block_tokens : 0;
    if (!rest)
        return 0;
    return (uint64_t)((unsigned __int128)(block_tokens - rest) * 1000000 / block_tokens);
}
