// SPDX-License-Identifier: Apache-2.0
// A VMM handle that is mapped at two addresses is a segment of PyTorch's as long as one of the two
// is mapped.
#include "../lib/unit.h"
#include "state_model.h"

#include "replay/replay.h"

enum { SIZE = 2 << 20, HANDLE = 7 };
#define FIRST UINT64_C(0x700000000000)
#define SECOND UINT64_C(0x710000000000)

static struct ct_replay replay;

static void apply(uint32_t op, uint64_t ptr, uint64_t handle) {
    static uint64_t number;
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, op);
    CT_SET(&e, t_ns, number * 1000);
    CT_SET(&e, device, 0);
    CT_SET(&e, bytes, SIZE);
    if (ptr)
        CT_SET(&e, ptr, ptr);
    if (handle)
        CT_SET(&e, handle, handle);
    ct_replay_apply(&replay, &e, number++);
}

static int is_segment(void) {
    const struct ct_object *o = ct_live_find(&replay.live, CT_KIND_HANDLE, HANDLE);
    assert_non_null(o);
    return o->segment;
}

TEST(a_handle_mapped_twice_stays_a_segment) {
    ct_replay_init(&replay);
    replay.tiles = 1;
    apply(CT_OP_RESERVE, FIRST, 0);
    apply(CT_OP_RESERVE, SECOND, 0);
    apply(CT_OP_CREATE, 0, HANDLE);
    apply(CT_OP_MAP, FIRST, HANDLE);
    apply(CT_OP_MAP, SECOND, HANDLE);
    assert_false(is_segment()); // it has held no block
    apply(CT_OP_BLOCK_ALLOC, FIRST, 0);
    assert_true(is_segment());
    apply(CT_OP_BLOCK_FREE, FIRST, 0);
    apply(CT_OP_UNMAP, SECOND, 0);
    assert_true(is_segment());
    apply(CT_OP_UNMAP, FIRST, 0);
    assert_false(is_segment());
    ct_replay_free(&replay);
}
