// SPDX-License-Identifier: Apache-2.0
// A radix sort, from the lowest digit up. A digit that all keys share, as addresses do, costs
// nothing.
#include "base/pair_sort.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define DIGIT_BITS 11u
#define DIGITS ((64 + DIGIT_BITS - 1) / DIGIT_BITS)
#define VALUES (1u << DIGIT_BITS)
enum { FEW = 64 }; // pairs, of which counting digits would take longer

static unsigned digit_of(uint64_t key, unsigned digit) {
    return (unsigned)(key >> digit * DIGIT_BITS) & (VALUES - 1);
}

static void sort_few(struct ct_pair *list, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const struct ct_pair p = list[i];
        size_t to = i;
        for (; to && list[to - 1].key > p.key; to--)
            list[to] = list[to - 1];
        list[to] = p;
    }
}

// Moves the pairs in the order of one digit. Returns 0, and moves none, if all have the same.
static int sort_digit(const struct ct_pair *from, struct ct_pair *to, size_t n, unsigned digit) {
    size_t start[VALUES] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++)
        start[digit_of(from[i].key, digit)]++;
    if (start[digit_of(from[0].key, digit)] == n)
        return 0;
    for (unsigned v = 0; v < VALUES; v++) {
        const size_t count = start[v];
        start[v] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[start[digit_of(from[i].key, digit)]++] = from[i];
    return 1;
}

void ct_pair_sort(struct ct_pair *list, size_t n) {
    if (n <= FEW) {
        sort_few(list, n);
        return;
    }
    struct ct_pair *const spare = ct_heap_resize(NULL, n, sizeof *spare), *from = list, *to = spare;
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        if (!sort_digit(from, to, n, digit))
            continue;
        struct ct_pair *const sorted = to;
        to = from;
        from = sorted;
    }
    if (from != list)
        memcpy(list, from, n * sizeof *list);
    free(spare);
}
