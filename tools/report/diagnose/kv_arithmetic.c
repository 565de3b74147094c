// SPDX-License-Identifier: Apache-2.0
#include "diagnose/kv_arithmetic.h"

#include <string.h>

#include "diagnose/text_start.h"

// ---- blocks of requests -------------------------------------------------------------------------

static uint64_t sum(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t ct_kv_blocks_of(uint64_t tokens, uint64_t block_tokens) {
    return block_tokens ? tokens / block_tokens + (tokens % block_tokens != 0) : 0;
}

void ct_kv_waste_add(struct ct_kv_waste *w, const uint64_t *lengths, size_t count,
                     uint64_t block_tokens) {
    for (size_t i = 0; i < count && block_tokens; i++) {
        const uint64_t rest = lengths[i] % block_tokens;
        w->block_tokens = block_tokens;
        w->requests++;
        w->tokens = sum(w->tokens, lengths[i]);
        w->blocks = sum(w->blocks, ct_kv_blocks_of(lengths[i], block_tokens));
        w->partly_blocks += rest != 0;
        w->empty_tokens = sum(w->empty_tokens, rest ? block_tokens - rest : 0);
    }
}

// A whole number from 1 to `most`, of which the text goes on at *end; 0: there is none.
static uint64_t read_number(const char *text, uint64_t most, const char **end) {
    uint64_t n = 0;
    for (*end = text; **end >= '0' && **end <= '9'; ++*end) {
        n = n * 10 + (uint64_t)(**end - '0');
        if (n > most)
            return 0;
    }
    return n;
}

int ct_kv_waste_add_list(struct ct_kv_waste *w, const char *list, uint64_t block_tokens) {
    static const uint64_t most_tokens = UINT64_C(1) << 40, most_requests = 1000000;
    const char *block = strchr(list, '/'), *end = "";
    if (block)
        block_tokens = read_number(block + 1, 1 << 20, &end);
    if (!block_tokens || *end)
        return -1;
    for (;;) {
        const uint64_t length = read_number(list, most_tokens, &list);
        uint64_t count = 1;
        if (*list == 'x')
            count = read_number(list + 1, most_requests, &list);
        if (!length || !count || count > most_requests - w->requests)
            return -1;
        while (count--)
            ct_kv_waste_add(w, &length, 1, block_tokens);
        if (!*list || list == block)
            return 0;
        if (*list++ != ',')
            return -1;
    }
}

uint64_t ct_kv_last_block_empty(uint64_t tokens, uint64_t block_tokens) {
    const uint64_t rest = block_tokens ? tokens % block_tokens : 0;
    if (!rest)
        return 0;
    return (uint64_t)((unsigned __int128)(block_tokens - rest) * 1000000 / block_tokens);
}

// ---- the requests of a log ----------------------------------------------------------------------

int ct_kv_waste_find(const struct ct_text_facts *f, const char *lengths, struct ct_kv_waste *w) {
    struct ct_text_start s;
    *w = (struct ct_kv_waste){0};
    ct_text_start_find(f, &s);
    const uint64_t block_tokens =
        s.block_tokens.known && s.block_tokens.value > 0 ? (uint64_t)s.block_tokens.value : 0;
    if (lengths)
        return ct_kv_waste_add_list(w, lengths, block_tokens);
    ct_kv_waste_add(w, f->step.lengths, (size_t)f->step.length_count, block_tokens);
    return w->requests ? 0 : -1;
}

// ---- sizes of requests -------------------------------------------------------------------------

// PyTorch asks the driver for whole steps of 2 MiB, and its message names what it asked for.
#define ROUNDING (INT64_C(2) << 20)

// Vocabularies of common models, as their config.json has them.
static const int64_t vocabularies[] = {32000,  32768,  50304,  64000,  100352, 102400,
                                       128256, 129280, 131072, 151552, 151936, 152064,
                                       154880, 163840, 201088, 202048, 256000, 262144};
// Sorting holds 12 B for an element (a value and its index), its index alone 8; logits 4 or 2.
static const int64_t elements[] = {12, 8, 4, 2};

static int64_t distance(int64_t a, int64_t b) {
    return a > b ? a - b : b - a;
}

// Whether a product is what was tried, as asked for or in whole steps, to the digits that were
// printed (rounded to `step`).
static int fits(int64_t tried, int64_t step, int64_t rows, int64_t vocabulary, int64_t bytes) {
    int64_t size;
    if (__builtin_mul_overflow(rows, vocabulary, &size) ||
        __builtin_mul_overflow(size, bytes, &size) || size > INT64_MAX - ROUNDING)
        return 0;
    const int64_t rounded = (size + ROUNDING - 1) / ROUNDING * ROUNDING;
    return distance(tried, size) <= step / 2 + 1 || distance(tried, rounded) <= step / 2 + 1;
}

int ct_request_size_find(int64_t tried, int64_t step, int64_t rows, int64_t vocabulary,
                         struct ct_request_size *found) {
    const int64_t *list = vocabulary > 0 ? &vocabulary : vocabularies;
    const size_t n = vocabulary > 0 ? 1 : sizeof vocabularies / sizeof *vocabularies;
    unsigned count = 0;
    if (rows < 2 || tried <= 8 * ROUNDING) // (below, a rounding fits too many)
        return 0;
    for (size_t e = 0; e < sizeof elements / sizeof *elements; e++)
        for (size_t i = 0; i < n; i++)
            if (fits(tried, step, rows, list[i], elements[e]) && !count++)
                *found = (struct ct_request_size){rows, list[i], elements[e], vocabulary > 0, 0};
    found->others_fit = count > 1;
    return count != 0;
}
