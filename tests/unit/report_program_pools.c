// SPDX-License-Identifier: Apache-2.0
// Pools of a program with millions of sub-allocations: bounded in memory and in time, and right up
// to the bound.
#include <stdlib.h>
#include <string.h>

#include "../lib/draw.h"
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "analyze/program_pools.h"

enum { HEAPS = 3, ADDRESSES = 2000 };

static struct ct_program_pools pools;

static void begin(void) {
    pools = (struct ct_program_pools){.count = 0};
}

static void hand_out(uint64_t heap, uint64_t ptr, uint64_t bytes) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_SUBALLOC);
    CT_SET(&e, handle, heap);
    CT_SET(&e, ptr, ptr);
    CT_SET(&e, bytes, bytes);
    ct_program_pools_apply(&pools, &e);
}

static void take_back(uint64_t ptr) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_SUBFREE);
    CT_SET(&e, ptr, ptr);
    ct_program_pools_apply(&pools, &e);
}

static void reset(uint64_t heap) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_SUBFREE);
    CT_SET(&e, handle, heap);
    ct_program_pools_apply(&pools, &e);
}

TEST(more_than_are_followed) {
    const uint64_t more = CT_PROGRAM_POOL_REGIONS / 2;
    begin();
    for (uint64_t i = 0; i < CT_PROGRAM_POOL_REGIONS + more; i++)
        hand_out(1, 4096 + i * 64, 2);
    assert_int_equal(pools.live, CT_PROGRAM_POOL_REGIONS);
    assert_int_equal(pools.left_out_count, more);
    assert_int_equal(pools.list[0].live_bytes, 2 * (uint64_t)CT_PROGRAM_POOL_REGIONS);
    assert_true(pools.capacity <= 4 * (size_t)CT_PROGRAM_POOL_REGIONS);
    for (uint64_t i = 0; i < CT_PROGRAM_POOL_REGIONS + more; i++)
        take_back(4096 + i * 64);
    assert_int_equal(pools.live, 0);
    assert_int_equal(pools.used, 0);
    assert_int_equal(pools.unknown_count, more);
    ct_program_pools_free(&pools);
}

TEST(resets_leave_nothing) {
    begin();
    for (uint64_t i = 0; i < 3000000; i++) {
        hand_out(1, 4096 + i * 64, 2);
        if (i % 100 == 99)
            reset(1);
    }
    assert_true(pools.capacity <= 1024);
    assert_int_equal(pools.list[0].live_count, 0);
    assert_int_equal(pools.list[0].peak_bytes, 200);
    ct_program_pools_free(&pools);
}

// An array of all addresses.
struct model {
    uint64_t bytes[ADDRESSES];
    int heap[ADDRESSES]; // -1: nothing is there
};

static void compare(const struct model *m) {
    for (int h = 0; h < HEAPS; h++) {
        uint64_t bytes = 0, count = 0;
        for (int a = 0; a < ADDRESSES; a++) {
            bytes += m->heap[a] == h ? m->bytes[a] : 0;
            count += m->heap[a] == h;
        }
        for (uint32_t i = 0; i < pools.count; i++) {
            if (pools.list[i].handle != (uint64_t)h)
                continue;
            assert_int_equal(pools.list[i].live_bytes, bytes);
            assert_int_equal(pools.list[i].live_count, count);
        }
    }
}

TEST(random_calls) {
    static struct model m;
    chance = 7 + test_seed();
    begin();
    memset(m.heap, -1, sizeof m.heap);
    for (int i = 0; i < 400000; i++) {
        const int a = (int)draw(ADDRESSES), h = (int)draw(HEAPS);
        const uint64_t what = draw(1024), ptr = 4096 + (uint64_t)a * 4096;
        if (what == 0) {
            reset((uint64_t)h);
            for (int k = 0; k < ADDRESSES; k++)
                m.heap[k] = m.heap[k] == h ? -1 : m.heap[k];
        } else if (what < 600) {
            hand_out((uint64_t)h, ptr, what);
            m.heap[a] = h;
            m.bytes[a] = what;
        } else {
            take_back(ptr);
            m.heap[a] = -1;
        }
        if (i % 5000 == 0)
            compare(&m);
    }
    compare(&m);
    ct_program_pools_free(&pools);
}
