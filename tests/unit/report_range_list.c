// SPDX-License-Identifier: Apache-2.0
// Ordered address ranges, against an array that has the range of each address.
#include <stdlib.h>

#include "../lib/draw.h"
#include "../lib/unit.h"
#include "replay/range_list.h"

enum { CELLS = 60000 };

static struct ct_range_list spans;
static uint64_t owner[CELLS]; // 0: none; else the number of the range
static uint64_t number;

static void paint(uint64_t start, uint64_t bytes, uint64_t with) {
    for (uint64_t i = start; i < start + bytes; i++)
        owner[i] = with;
}

// The first range at or behind an address.
static uint64_t expected(uint64_t address) {
    while (address < CELLS && !owner[address])
        address++;
    return address < CELLS ? owner[address] : 0;
}

static void look(uint64_t address, uint64_t bytes) {
    const struct ct_listed_range *found = ct_range_list_find(&spans, address);
    const struct ct_listed_range *over = ct_range_list_find_overlap(&spans, address, bytes);
    const uint64_t want = expected(address);
    assert_int_equal(found ? found->event : 0, want);
    assert_ptr_equal(over, found && found->start < address + bytes ? found : NULL);
    const int begins = owner[address] && (!address || owner[address - 1] != owner[address]);
    assert_int_equal(ct_range_list_find_exact(&spans, address) != NULL, begins);
}

static void take_over(uint64_t start, uint64_t bytes) {
    struct ct_listed_range *there;
    while ((there = ct_range_list_find_overlap(&spans, start, bytes))) {
        paint(there->start, there->bytes, 0);
        ct_range_list_remove(&spans, there);
    }
    for (uint64_t i = start; i < start + bytes; i++)
        assert_int_equal(owner[i], 0);
}

static void walk(void) {
    uint64_t up_to = 0;
    for (const struct ct_listed_range *span = ct_range_list_find(&spans, 0); span;
         span = ct_range_list_next(&spans, span)) {
        for (; up_to < span->start; up_to++)
            assert_int_equal(owner[up_to], 0);
        for (; up_to < span->start + span->bytes; up_to++)
            assert_int_equal(owner[up_to], span->event);
    }
    for (; up_to < CELLS; up_to++)
        assert_int_equal(owner[up_to], 0);
}

// In turns: many small ranges, few large ones in their place, and hardly any.
TEST(as_the_array_says) {
    for (int i = 0; i < 400000; i++) {
        const int turn = i / 20000 % 4;
        const uint64_t most = turn == 1 ? 3000 : turn == 3 ? 60 : 6, bytes = 1 + draw(most);
        const uint64_t start = draw(CELLS - bytes);
        look(draw(CELLS), 1 + draw(most));
        take_over(start, bytes);
        if (turn == 2 && draw(4))
            continue;
        const struct ct_listed_range span = {.start = start, .bytes = bytes, .event = ++number};
        ct_range_list_add(&spans, &span);
        paint(start, bytes, number);
        if (i % 5000 == 0)
            walk();
    }
    walk();
    ct_range_list_free(&spans);
    assert_null(ct_range_list_find(&spans, 0));
}

TEST(in_order) {
    for (uint64_t i = 0; i < 10000; i++) {
        const struct ct_listed_range up = {
            .start = 1000000 + i * 2, .bytes = 1 + i % 2, .event = i + 1};
        const struct ct_listed_range down = {
            .start = 1000000 - (i + 1) * 2, .bytes = 2, .event = i + 1};
        ct_range_list_add(&spans, &up);
        ct_range_list_add(&spans, &down);
    }
    for (uint64_t i = 0; i < 10000; i++) {
        assert_int_equal(ct_range_list_find_exact(&spans, 1000000 + i * 2)->event, i + 1);
        assert_int_equal(ct_range_list_find_exact(&spans, 1000000 - (i + 1) * 2)->event, i + 1);
    }
    ct_range_list_free(&spans);
}
