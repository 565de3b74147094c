// SPDX-License-Identifier: Apache-2.0
#include "diagnose/request_size.h"

#include <stddef.h>

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
