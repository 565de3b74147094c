// SPDX-License-Identifier: Apache-2.0
// Gaps between addresses: against sorting all allocations, for random sequences, in bounded memory.
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "state_model.h"

#include <cutrace/model/address_map.h>
#include <cutrace/model/live.h>

#define BLOCK (UINT64_C(2) << 20)

struct range {
    uint64_t start, bytes;
    int device;
};

static int by_start(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

// The report's way: sort, and look between neighbours. Addresses are those of blocks.
static struct ct_gaps by_sorting(const struct range *ranges, size_t n, int device, uint64_t far) {
    struct range *sorted = calloc(n + 1, sizeof *sorted);
    struct ct_gaps g = {0, 0, 0, 0};
    uint64_t end = 0;
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (ranges[i].device == device && ranges[i].bytes) {
            sorted[k].start = ranges[i].start / BLOCK * BLOCK;
            sorted[k].bytes =
                (ranges[i].start + ranges[i].bytes + BLOCK - 1) / BLOCK * BLOCK - sorted[k].start;
            k++;
        }
    qsort(sorted, k, sizeof *sorted, by_start);
    for (size_t i = 0; i < k; i++) {
        const uint64_t from = sorted[i].start, to = from + sorted[i].bytes;
        if (i && from > end && from - end <= far) {
            g.gaps++;
            g.bytes += from - end;
            g.largest = from - end > g.largest ? from - end : g.largest;
        }
        if (to > end)
            g.used_bytes += to - (from > end ? from : end);
        end = to > end ? to : end;
    }
    free(sorted);
    return g;
}

static void same_gaps(struct ct_address_map *r, const struct range *ranges, size_t n, int device,
                      uint64_t far) {
    const struct ct_gaps got = ct_address_map_gaps(r, device, far);
    const struct ct_gaps want = by_sorting(ranges, n, device, far);
    assert_int_equal(got.gaps, want.gaps);
    assert_int_equal(got.bytes, want.bytes);
    assert_int_equal(got.largest, want.largest);
    assert_int_equal(got.used_bytes, want.used_bytes);
}

enum { RANGES = 3000 };

// Large ones on block borders, small ones anywhere; near, far and overlapping ones.
static struct range random_range(uint64_t *seed, unsigned round) {
    struct range r;
    const unsigned scale = round % 3 == 0 ? 100 : round % 3 == 1 ? 20000 : 2000000;
    r.start = (UINT64_C(0x7f0000000000) & ~(BLOCK - 1)) + random_below(seed, scale) * BLOCK;
    r.device = (int)random_below(seed, 3);
    if (random_below(seed, 3)) {
        r.bytes = (1 + random_below(seed, 70)) * BLOCK;
    } else {
        r.start += random_below(seed, 4096) * 512;
        r.bytes = random_below(seed, 8) * 300;
    }
    if (!random_below(seed, 50))
        r.start = random_below(seed, 5) * BLOCK;
    return r;
}

TEST(is_what_sorting_finds) {
    static struct range ranges[RANGES];
    uint64_t seed = 31337 + test_seed();
    for (unsigned round = 0; round < 30; round++) {
        struct memory memory = {0};
        struct ct_address_map r;
        size_t n = 0;
        ct_address_map_init(&r, memory_resize, &memory);
        for (unsigned step = 0; step < 20000; step++) {
            const int grows = step / 5000 % 2 == 0;
            if (n < RANGES && (random_below(&seed, 4) < (grows ? 3 : 1) || !n)) {
                ranges[n] = random_range(&seed, round);
                ct_address_map_change(&r, ranges[n].device, ranges[n].start, ranges[n].bytes, +1);
                n++;
            } else {
                const size_t i = random_below(&seed, n);
                ct_address_map_change(&r, ranges[i].device, ranges[i].start, ranges[i].bytes, -1);
                ranges[i] = ranges[--n];
            }
            if (step % 400 == 0)
                for (int d = 0; d < 4; d++)
                    same_gaps(&r, ranges, n, d, d == 1 ? 64 * BLOCK : UINT64_C(1) << 40);
        }
        while (n) {
            n--;
            ct_address_map_change(&r, ranges[n].device, ranges[n].start, ranges[n].bytes, -1);
        }
        assert_int_equal(r.pages, 0);
        assert_int_equal(r.leaves, 0);
        assert_int_equal(r.shared_used, 0);
        assert_int_equal(r.overflow, 0);
        ct_address_map_release(&r);
        assert_int_equal(memory.bytes, 0);
    }
}

// ---- beside live.h ------------------------------------------------------------------------------

static struct {
    struct memory memory; // first: `user` serves both
    struct ct_live live;
    struct ct_address_map ranges;
} both;

static void placed(void *user, const struct ct_object *o, const struct ct_traits *from, int sign) {
    (void)user;
    ct_address_map_update(&both.ranges, o, from, sign);
}

TEST(follows_what_is_alive) {
    struct events events = {.seed = 11 + test_seed(), .keys = 300};
    static struct range ranges[8192];
    struct ct_event e;
    ct_live_init(&both.live, memory_resize, &both.memory);
    ct_address_map_init(&both.ranges, memory_resize, &both.memory);
    both.live.address_changed = placed;
    for (uint64_t number = 0; number < 40000; number++) {
        size_t n = 0;
        random_event(&events, &e);
        if (CT_HAS(&e, ptr))
            e.ptr *= 1024; // 4 MiB apart
        ct_live_apply(&both.live, &e, number);
        if (number % 1000)
            continue;
        for (uint32_t i = 0; i < ct_live_slot_count(&both.live); i++) {
            const struct ct_object *o = ct_live_object_at(&both.live, i);
            if (o && o->kind == CT_KIND_ADDRESS && ct_object_is_on_device(&both.live, o))
                ranges[n++] = (struct range){
                    o->key, o->bytes, o->device == CT_NO_DEVICE ? CT_MAX_DEVICES : o->device};
        }
        for (int d = 0; d <= CT_MAX_DEVICES; d++)
            same_gaps(&both.ranges, ranges, n, d, UINT64_C(1) << 40);
    }
    ct_live_release(&both.live);
    ct_address_map_release(&both.ranges);
    assert_int_equal(both.memory.bytes, 0);
}

// ---- bounds -------------------------------------------------------------------------------------

// A device filled with allocations of 1 to 32 blocks, many of them given back and replaced, and a
// tenth of it with small ones: bytes for a block in use.
TEST(needs_few_bytes_for_a_block) {
    static struct range ranges[60000];
    struct memory memory = {0};
    struct ct_address_map r;
    uint64_t seed = 8 + test_seed(), at = UINT64_C(0x7f0000000000);
    ct_address_map_init(&r, memory_resize, &memory);
    for (size_t i = 0; i < 60000; i++) {
        const int small = i % 10 == 0;
        ranges[i] = (struct range){at, small ? BLOCK : (1 + random_below(&seed, 32)) * BLOCK, 0};
        for (unsigned k = 0; k < (small ? 100 : 1); k++)
            ct_address_map_change(&r, 0, at + k * 512, small ? 512 : ranges[i].bytes, +1);
        at += ranges[i].bytes;
    }
    for (size_t i = 0; i < 60000; i++)
        if (i % 10 && random_below(&seed, 2)) {
            ct_address_map_change(&r, 0, ranges[i].start, ranges[i].bytes, -1);
            ranges[i].bytes = 0;
        }
    const struct ct_gaps g = ct_address_map_gaps(&r, 0, UINT64_C(1) << 40);
    const uint64_t blocks = g.used_bytes / BLOCK;
    const double bytes = (double)memory.bytes / (double)blocks;
    print_message("# %.2f bytes for a block in use\n", bytes);
    same_gaps(&r, ranges, 60000, 0, UINT64_C(1) << 40);
    assert_true(bytes <= 4);
    ct_address_map_release(&r);
    // Nothing but small ones, 100 to a block: still no more than 16.
    size_t worst = 0;
    for (uint64_t block = 0; block < 200000; block++) {
        for (unsigned k = 0; k < 3; k++)
            ct_address_map_change(&r, 0, block * BLOCK + k * 512, 512, +1);
        if (block > 20000 && memory.bytes * 100 / (block + 1) > worst)
            worst = memory.bytes * 100 / (block + 1);
    }
    print_message("# %zu.%02zu bytes for a block of small ones\n", worst / 100, worst % 100);
    assert_true(worst <= 1600);
    ct_address_map_release(&r);
    assert_int_equal(memory.bytes, 0);
}

// What no device has is left out and counted; so is what finds no memory.
TEST(is_bounded) {
    struct memory memory = {0};
    struct ct_address_map r;
    ct_address_map_init(&r, memory_resize, &memory);
    ct_address_map_change(&r, 0, 0, UINT64_MAX, +1);
    ct_address_map_change(&r, 0, BLOCK, UINT64_C(1) << 50, +1);
    ct_address_map_change(&r, 0, UINT64_MAX - 5, 6, +1);
    ct_address_map_change(&r, 0, UINT64_MAX - 5, 5, +1);
    ct_address_map_change(&r, 0, 5, UINT64_MAX - 4, +1);
    assert_int_equal(r.overflow, 2);
    for (unsigned i = 0; i < 70000; i++) // saturates, and then stays
        ct_address_map_change(&r, 5, 0, 512, +1);
    for (unsigned i = 0; i < 70000; i++)
        ct_address_map_change(&r, 5, 0, 512, -1);
    assert_int_equal(ct_address_map_gaps(&r, 5, BLOCK).used_bytes, BLOCK);
    ct_address_map_release(&r);
    for (size_t bound = 1; bound < 100000; bound += 2222) {
        memory.refuse_above = bound;
        for (uint64_t i = 0; i < 3000; i++) {
            ct_address_map_change(&r, 0, i * 64 * BLOCK, 512, +1);
            ct_address_map_change(&r, 0, i * 64 * BLOCK + 512, 512, +1);
        }
        assert_true(r.overflow > 0);
        for (uint64_t i = 0; i < 3000; i++)
            ct_address_map_change(&r, 0, i * 64 * BLOCK, 1024, -1);
        ct_address_map_release(&r);
        assert_int_equal(memory.bytes, 0);
    }
}

// The recorder lends whole pages: each one that is taken costs a call of the kernel.
TEST(coming_and_going_takes_nothing_anew) {
    struct ct_event taken = {.op = CT_OP_ALLOC}, given = {.op = CT_OP_FREE};
    memset(&both, 0, sizeof both);
    ct_live_init(&both.live, memory_resize, &both.memory);
    ct_address_map_init(&both.ranges, memory_resize, &both.memory);
    both.live.address_changed = placed;
    CT_SET(&taken, device, 0);
    CT_SET(&taken, bytes, 3 * BLOCK);
    for (uint64_t i = 0; i < 10000; i++) {
        CT_SET(&taken, ptr, (1 + i % 7) << 40);
        CT_SET(&given, ptr, (1 + i % 7) << 40);
        ct_live_apply(&both.live, &taken, 2 * i);
        ct_live_apply(&both.live, &given, 2 * i + 1);
    }
    assert_in_range(both.memory.times, 1, 20);
    ct_live_release(&both.live);
    ct_address_map_release(&both.ranges);
    assert_int_equal(both.memory.bytes, 0);
}

TEST(scattered_room_has_a_number) {
    assert_int_equal(ct_gaps_permille(&(struct ct_gaps){0, 0, 0, 0}), 0);
    assert_int_equal(ct_gaps_permille(&(struct ct_gaps){1, 100, 100, 0}), 0);
    assert_int_equal(ct_gaps_permille(&(struct ct_gaps){4, 100, 25, 0}), 750);
    assert_int_equal(ct_gaps_permille(&(struct ct_gaps){2, UINT64_MAX, UINT64_MAX / 2, 0}), 501);
}
