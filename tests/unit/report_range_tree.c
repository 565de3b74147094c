// SPDX-License-Identifier: Apache-2.0
// The tree of address ranges, against a map with a byte for each address.
#include <stdlib.h>
#include <string.h>

#include "../lib/draw.h"
#include "../lib/unit.h"
#include "replay/range_tree.h"

enum { ADDRESSES = 60000, ZONE = 6000 }; // extents of different zones never become one

static uint8_t there[ADDRESSES + 1];

// All extents from left to right are those of the map, and so are the totals.
static void same(const struct ct_range_tree *s) {
    struct ct_tree_range at;
    uint64_t count = 0, bytes = 0, largest = 0, next = 0;
    for (uint64_t from = 0; from < ADDRESSES;) {
        uint64_t to = from;
        while (to < ADDRESSES && there[to] && to / ZONE == from / ZONE)
            to++;
        if (to == from) {
            from++;
            continue;
        }
        assert_true(ct_range_tree_find(s, next, &at));
        assert_int_equal(at.start, from);
        assert_int_equal(at.bytes, to - from);
        count++;
        bytes += to - from;
        largest = to - from > largest ? to - from : largest;
        next = from = to;
    }
    assert_false(ct_range_tree_find(s, next, &at) && at.start < ADDRESSES);
    assert_int_equal(s->count, count);
    assert_int_equal(s->bytes, bytes);
    assert_int_equal(s->largest, largest);
}

static void change(struct ct_range_tree *s, int add, uint64_t start, uint64_t end) {
    const uint64_t zone = start / ZONE * ZONE;
    uint64_t changed = 0;
    for (uint64_t i = start; i < end; i++)
        changed += there[i] != add;
    memset(there + start, add, end - start);
    assert_int_equal(add ? ct_range_tree_add(s, start, end, zone, zone + ZONE)
                         : ct_range_tree_remove(s, start, end),
                     changed);
}

TEST(random_changes) {
    struct ct_range_tree s = {0};
    for (unsigned round = 0; round < 60000; round++) {
        // Times when it fills up with small ones, empties, and times of large ones.
        const uint64_t phase = round / 6000 % 5, longest = phase == 3 ? 2000 : phase == 4 ? 200 : 9;
        const uint64_t start = draw(ADDRESSES);
        const uint64_t left = ZONE - start % ZONE;
        uint64_t bytes = 1 + draw(longest);
        const int add = draw(8) < (phase == 0 ? 7u : phase == 1 ? 2u : 4u);
        if (add && bytes > left)
            bytes = left;
        change(&s, add, start, start + bytes < ADDRESSES ? start + bytes : ADDRESSES);
        if (round % 500 == 0)
            same(&s);
    }
    same(&s);
    change(&s, 0, 0, ADDRESSES);
    same(&s);
    assert_null(s.root);
    ct_range_tree_clear(&s);
}

TEST(in_order_and_back) {
    struct ct_range_tree s = {0};
    memset(there, 0, sizeof there);
    for (uint64_t i = 0; i + 1 < ADDRESSES; i += 3)
        change(&s, 1, i, i + 2);
    same(&s);
    for (uint64_t i = ADDRESSES / 3 * 3; i-- > 3;) // from the right, each single address
        if (there[i])
            change(&s, 0, i, i + 1);
    same(&s);
    assert_int_equal(s.count, 1);
    ct_range_tree_clear(&s);
}

// Spans that were put stay as they are, also side by side, and keep their marks.
TEST(marks) {
    struct ct_range_tree s = {0};
    struct ct_tree_range at;
    uint8_t put[3000] = {0};
    for (unsigned round = 0; round < 40000; round++) {
        const uint64_t i = draw(3000);
        if (put[i])
            ct_range_tree_erase(&s, i * 10);
        else
            ct_range_tree_insert_marked(&s, i * 10, i * 10 + 10 - draw(3), (uint32_t)i);
        put[i] ^= 1;
        const uint64_t asked = draw(3000);
        uint64_t want = asked;
        while (want < 3000 && !put[want])
            want++;
        assert_int_equal(ct_range_tree_find(&s, asked * 10, &at), want < 3000);
        if (want < 3000)
            assert_true(at.mark == want && at.start == want * 10);
    }
    ct_range_tree_erase(&s, 7); // nothing begins there
    ct_range_tree_clear(&s);
}
