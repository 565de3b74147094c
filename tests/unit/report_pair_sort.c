// SPDX-License-Identifier: Apache-2.0
// Sorting pairs: the order is that of an insertion into a sorted list, which keeps equal keys as
// they came.
#include <stdlib.h>
#include <string.h>

#include "../lib/draw.h"
#include "../lib/unit.h"
#include "base/pair_sort.h"

enum { MOST = 3000 };

// Where a pair belongs: behind all that have its key or a lower one.
static void check_sorted(const struct ct_pair *sorted, const struct ct_pair *given, size_t n) {
    for (size_t i = 1; i < n; i++) {
        assert_true(sorted[i - 1].key <= sorted[i].key);
        if (sorted[i - 1].key == sorted[i].key)
            assert_true(sorted[i - 1].value < sorted[i].value); // the values are positions
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(sorted[i].value < n);
        assert_true(given[sorted[i].value].key == sorted[i].key);
    }
}

static void sort_and_check(size_t n, uint64_t mask, uint64_t base) {
    static struct ct_pair given[MOST], list[MOST];
    for (size_t i = 0; i < n; i++)
        given[i] = list[i] = (struct ct_pair){(draw(UINT64_MAX) & mask) + base, i};
    ct_pair_sort(list, n);
    check_sorted(list, given, n);
}

TEST(test_all_sizes) {
    for (size_t n = 0; n < 200; n++)
        sort_and_check(n, UINT64_MAX, 0);
    sort_and_check(MOST, UINT64_MAX, 0);
}

TEST(test_addresses) {
    for (unsigned bits = 0; bits < 64; bits++)
        sort_and_check(MOST, (UINT64_C(1) << bits) - 1, UINT64_C(0x7F0000000000));
    sort_and_check(MOST, 0xFFFFFE00, UINT64_C(0x7F0000000000));
}

TEST(test_equal_keys) {
    sort_and_check(MOST, 0, 5);
    sort_and_check(MOST, 3, UINT64_MAX - 3);
}
