// SPDX-License-Identifier: Apache-2.0
// The gaps that ranges.h maintains, against those that the report finds by sorting, without shared
// blocks.
#include <stdlib.h>

#include <cutrace/model/address_map.h>
#include <cutrace/model/live.h>

#include "../lib/seed.h"
#include "../lib/unit.h"
#include "layout/address_layout.h"

static struct ct_replay replay;
static struct ct_address_map ranges;

static void *resize(void *user, void *old, size_t old_bytes, size_t new_bytes) {
    (void)user;
    (void)old_bytes;
    free(old);
    return new_bytes ? aligned_alloc(64, (new_bytes + 63) / 64 * 64) : NULL;
}

static void placed(void *user, const struct ct_object *o, const struct ct_traits *from, int sign) {
    (void)user;
    ct_address_map_update(&ranges, o, from, sign);
}

TEST(gaps_are_those_of_the_report) {
    uint64_t seed = 1 + test_seed();
    ct_replay_init(&replay);
    ct_address_map_init(&ranges, resize, NULL);
    replay.live.address_changed = placed;
    for (uint64_t number = 0; number < 30000; number++) {
        struct ct_event e = {.present = 0};
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint64_t block = seed >> 40 & 4095, grows = number / 5000 % 2;
        CT_SET(&e, op, (seed >> 33 & 3) > grows ? CT_OP_FREE : CT_OP_ALLOC);
        CT_SET(&e, t_ns, number);
        CT_SET(&e, ptr, UINT64_C(0x7f0000000000) + (block << 23)); // room for four blocks
        if (e.op == CT_OP_ALLOC) {
            CT_SET(&e, bytes, ((seed >> 53 & 3) + 1) << 21);
            CT_SET(&e, device, (int32_t)(block & 1));
            CT_SET(&e, space, (seed >> 60) ? CT_SPACE_DEVICE : CT_SPACE_MANAGED);
            CT_SET(&e, flags, seed >> 56 & 1 ? CT_FLAG_FOREIGN : 0);
        }
        ct_replay_apply(&replay, &e, number);
        for (int d = 0; d < 3 && number % 500 == 0; d++) {
            const uint64_t far = d ? UINT64_C(100) << 20 : UINT64_C(80) << 30;
            const struct ct_address_layout want = ct_address_layout_measure(&replay, d, far);
            const struct ct_gaps got = ct_address_map_gaps(&ranges, d, far);
            assert_int_equal(got.gaps, want.gaps);
            assert_int_equal(got.bytes, want.gap_bytes);
            assert_int_equal(got.largest, want.gap_max);
            assert_int_equal(got.used_bytes, want.range_bytes);
        }
    }
    assert_true(ct_address_map_gaps(&ranges, 0, UINT64_C(80) << 30).gaps > 100);
    ct_replay_free(&replay);
    ct_address_map_release(&ranges);
}
