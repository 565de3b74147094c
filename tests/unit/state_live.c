// SPDX-License-Identifier: Apache-2.0
// The live state: against a plain second implementation, in bounded memory, and when memory runs
// out.
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "state_model.h"

TEST(is_what_an_array_would_hold) {
    static struct plain plain;
    struct events events = {.seed = 42 + test_seed()};
    for (unsigned round = 0; round < 60; round++) {
        struct memory memory = {0};
        struct ct_live live;
        struct ct_event e;
        memset(&plain, 0, sizeof plain);
        events.keys = round % 3 ? 12 : 300;
        ct_live_init(&live, memory_resize, &memory);
        for (uint64_t number = 0; number < 4000; number++) {
            random_event(&events, &e);
            ct_live_apply(&live, &e, number);
            plain_apply(&plain, &e, number);
            if (number % 17 == 0 || number < 100)
                same_as_plain(&live, &plain);
        }
        same_as_plain(&live, &plain);
        assert_int_equal(live.unknown_frees, plain.unknown_frees);
        assert_int_equal(live.replaced, plain.replaced);
        assert_int_equal(live.unknown_blocks, plain.unknown_blocks);
        assert_int_equal(live.overflow, 0);
        ct_live_release(&live);
        assert_int_equal(memory.bytes, 0);
    }
}

// ---- who is told ------------------------------------------------------------------------------

struct told {
    struct memory memory; // first: `user` serves both
    uint64_t bytes, count;
    int64_t addresses;
};

static void changed(void *user, const struct ct_object *o, int sign) {
    struct told *t = user;
    t->bytes += sign < 0 ? 0 - o->bytes : o->bytes;
    t->count += (uint64_t)(int64_t)sign;
}

static void placed(void *user, const struct ct_object *o, const struct ct_traits *from, int sign) {
    struct told *t = user;
    assert_int_equal(from->kind, CT_KIND_SHARED_TRAITS);
    assert_int_equal(o->kind, CT_KIND_ADDRESS);
    t->addresses += sign;
}

TEST(tells_of_all_that_joins_and_leaves) {
    struct told told = {0};
    struct events events = {.seed = 7 + test_seed(), .keys = 50};
    struct ct_live live;
    struct ct_event e;
    ct_live_init(&live, memory_resize, &told);
    live.total_changed = changed;
    live.address_changed = placed;
    for (uint64_t number = 0; number < 20000; number++) {
        uint64_t bytes = 0, count = 0;
        random_event(&events, &e);
        ct_live_apply(&live, &e, number);
        for (int d = 0; d <= CT_MAX_DEVICES; d++) {
            bytes += live.device[d].live_bytes;
            count += live.device[d].live_allocations;
        }
        assert_int_equal(told.bytes, bytes);
        assert_int_equal(told.count, count);
        assert_int_equal(told.addresses, live.of_kind[CT_KIND_ADDRESS]);
    }
    ct_live_release(&live);
}

// ---- memory -----------------------------------------------------------------------------------

static void put(struct ct_live *live, uint32_t op, uint64_t ptr, uint64_t number) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, op);
    CT_SET(&e, t_ns, number);
    CT_SET(&e, ptr, ptr);
    if (op == CT_OP_ALLOC) {
        CT_SET(&e, bytes, 512);
        CT_SET(&e, device, (int32_t)(ptr >> 40 & 7));
        CT_SET(&e, space, CT_SPACE_DEVICE);
        CT_SET(&e, context, 0x5555);
        CT_SET(&e, stack, (uint32_t)(ptr % 5003));
        CT_SET(&e, thread, (uint32_t)(ptr >> 20 & 31));
        CT_SET(&e, api, 3);
    }
    ct_live_apply(live, &e, number);
}

// From 100000 live allocations on, at any number of them, growing included: no more than 56 bytes
// for each.
TEST(needs_few_bytes_for_an_allocation) {
    struct memory memory = {0};
    struct ct_live live;
    size_t worst = 0, at_million = 0;
    const uint64_t most = test_rounds(1100000, 5000000);
    ct_live_init(&live, memory_resize, &memory);
    for (uint64_t n = 1; n <= most; n++) {
        memory.peak = memory.bytes;
        put(&live, CT_OP_ALLOC, UINT64_C(0x7f0000000000) + n * 512, n);
        if (n >= 100000 && memory.peak * 100 / n > worst)
            worst = (size_t)(memory.peak * 100 / n);
        if (n == 1000000)
            at_million = memory.bytes;
    }
    print_message("# %zu.%02zu bytes per allocation at 1000000, at worst %zu.%02zu\n",
                  at_million / 1000000, at_million / 10000 % 100, worst / 100, worst % 100);
    assert_int_equal(live.device[0].live_allocations + live.device[7].live_allocations, most);
    assert_true(worst <= 5600);
    // What is freed and allocated again elsewhere needs nothing more.
    const size_t full = memory.bytes;
    for (uint64_t n = 1; n <= most; n += 3)
        put(&live, CT_OP_FREE, UINT64_C(0x7f0000000000) + n * 512, n);
    for (uint64_t n = 1; n <= most; n += 3)
        put(&live, CT_OP_ALLOC, UINT64_C(0x7e0000000000) + n * 512, n);
    assert_int_equal(memory.bytes, full);
    assert_int_equal(live.unknown_frees, 0);
    ct_live_release(&live);
    assert_int_equal(memory.bytes, 0);
}

// What came and went leaves nothing behind: not in the index, nor of what objects had in common.
TEST(keeps_nothing_of_what_is_gone) {
    struct memory memory = {0};
    struct ct_live live;
    ct_live_init(&live, memory_resize, &memory);
    for (uint64_t n = 1; n <= 400000; n++) {
        struct ct_event e = {.present = 0};
        CT_SET(&e, op, CT_OP_ALLOC);
        CT_SET(&e, ptr, n * 512);
        CT_SET(&e, thread, (uint32_t)n); // each its own
        ct_live_apply(&live, &e, n);
        if (n > 20000)
            put(&live, CT_OP_FREE, (n - 20000) * 512, n);
    }
    assert_true(ct_live_slot_count(&live) <= 2 * 20001);
    for (uint64_t n = 380001; n <= 400000; n++)
        put(&live, CT_OP_FREE, n * 512, n);
    for (unsigned i = 0; i < CT_SLOT_INDEX_PARTS; i++) {
        assert_int_equal(live.part[i].used, 0);
        for (uint32_t k = 0; k < live.part[i].capacity; k++)
            assert_int_equal(live.part[i].lines[k].passed, 0);
    }
    assert_int_equal(live.unknown_frees, 0);
    ct_live_release(&live);
}

// Where memory is refused objects are left out and counted, and what was there is still there.
TEST(goes_on_without_memory) {
    for (size_t bound = 1; bound < 900000; bound += 37001) {
        struct memory memory = {.refuse_above = bound};
        struct ct_live live;
        uint64_t found = 0;
        ct_live_init(&live, memory_resize, &memory);
        for (uint64_t n = 1; n <= 20000; n++)
            put(&live, CT_OP_ALLOC, n * 512, n);
        for (uint64_t n = 1; n <= 20000; n++)
            found += ct_live_find(&live, CT_KIND_ADDRESS, n * 512) != NULL;
        assert_int_equal(found + live.overflow, 20000);
        assert_int_equal(found, live.of_kind[CT_KIND_ADDRESS]);
        assert_true(memory.peak <= bound);
        for (uint64_t n = 1; n <= 20000; n++)
            put(&live, CT_OP_FREE, n * 512, n);
        assert_int_equal(live.unknown_frees, 20000 - found);
        assert_int_equal(live.device[0].live_bytes, 0);
        ct_live_release(&live);
        assert_int_equal(memory.bytes, 0);
    }
}

// Tags of a line are compared at once: all that are the same are found, and the first one is one of
// them.
TEST(a_line_finds_its_tags) {
    struct events events = {.seed = 11 + test_seed()};
    for (unsigned round = 0; round < 200000; round++) {
        struct ct_slot_index_line line = {.passed = (uint16_t)random_below(&events.seed, 65536)};
        const uint8_t tag = (uint8_t)(round % 2 ? 0 : 0x80 | random_below(&events.seed, 4));
        unsigned want = 0;
        for (unsigned i = 0; i < CT_SLOT_INDEX_LINE_ENTRIES; i++) {
            line.tag[i] =
                (uint8_t)(random_below(&events.seed, 3) ? 0x80 | random_below(&events.seed, 4) : 0);
            want |= (unsigned)(line.tag[i] == tag) << i;
        }
        const unsigned got = ct_slot_index_match(&line, tag);
        assert_int_equal(got & want, want);
        assert_int_equal(got & (0 - got), want & (0 - want));
        assert_int_equal(got >> CT_SLOT_INDEX_LINE_ENTRIES, 0);
    }
}

// A batch that is fetched ahead has the same effect.
TEST(fetching_ahead_changes_nothing) {
    struct memory memory = {0};
    struct events events = {.seed = 3 + test_seed(), .keys = 100};
    struct ct_live with, without;
    struct ct_event batch[64];
    uint64_t hash[64];
    ct_live_init(&with, memory_resize, &memory);
    ct_live_init(&without, memory_resize, &memory);
    for (uint64_t n = 0; n < 6400; n += 64) {
        for (unsigned i = 0; i < 64; i++)
            random_event(&events, &batch[i]);
        for (unsigned i = 0; i < 64; i++) {
            for (unsigned k = i ? i + 8 : 0; k <= i + 8 && k < 64; k++)
                hash[k] = ct_slot_index_prefetch_line(&with, &batch[k]);
            if (i + 4 < 64)
                ct_slot_index_prefetch_slots(&with, hash[i + 4]);
            const struct ct_found given = ct_live_find_freed(&with, &batch[i], hash[i]);
            ct_live_apply_at(&with, &batch[i], n + i, hash[i], &given);
            ct_live_apply(&without, &batch[i], n + i);
        }
        same_totals(&with, &without);
    }
    ct_live_release(&with);
    ct_live_release(&without);
}
