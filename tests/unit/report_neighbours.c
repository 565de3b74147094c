// SPDX-License-Identifier: Apache-2.0
// What calls between two answers of NVML's leave: when the tracked memory changed last, and that
// nothing is known after a gap.
#include "../lib/unit.h"
#include "state_model.h"

#include "processes/neighbours.h"

#define MS UINT64_C(1000000)

static struct ct_replay replay;
static struct ct_neighbours neighbours;

BEFORE_EACH {
    ct_replay_init(&replay);
    neighbours = (struct ct_neighbours){0};
    return 0;
}

AFTER_EACH {
    ct_neighbours_free(&neighbours);
    ct_replay_free(&replay);
    return 0;
}

static void note(struct ct_event *e) {
    CT_SET(e, device, 0);
    ct_replay_apply(&replay, e, e->t_ns);
    ct_neighbours_note(&neighbours, &replay, 0, e);
}

static void allocate(uint64_t t_ns) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_ALLOC);
    CT_SET(&e, t_ns, t_ns);
    CT_SET(&e, ptr, t_ns << 20);
    CT_SET(&e, bytes, 1 << 20);
    note(&e);
}

static void list(uint64_t t_ns, uint64_t bytes) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_PROCESS);
    CT_SET(&e, t_ns, t_ns);
    CT_SET(&e, flags, CT_FLAG_NVML);
    CT_SET(&e, pid, 7);
    CT_SET(&e, process_bytes, bytes);
    note(&e);
}

// An answer counts if nothing has changed for 20 ms.
TEST(an_answer_soon_after_a_change_does_not_count) {
    allocate(1000 * MS);
    list(1019 * MS, 5);
    assert_false(neighbours.device[0].tick.is_open);
    allocate(1100 * MS);
    list(1120 * MS, 6);
    assert_true(neighbours.device[0].tick.is_open);
    allocate(1150 * MS); // the answer has ended before this call began
    assert_false(neighbours.device[0].tick.is_open);
    list(1160 * MS, 7);
    assert_false(neighbours.device[0].tick.is_open);
}

TEST(after_a_gap_nothing_is_known_until_the_next_answer) {
    allocate(1000 * MS);
    list(1100 * MS, 5);
    allocate(1200 * MS);
    assert_int_equal(ct_neighbour_at(neighbours.list, 1200 * MS), 5);
    replay.gaps++;
    allocate(1300 * MS);
    assert_int_equal(ct_neighbour_at(neighbours.list, 1299 * MS), 5);
    assert_int_equal(ct_neighbour_at(neighbours.list, 1300 * MS), CT_NEIGHBOUR_LOST);
    list(1400 * MS, 6);
    assert_int_equal(ct_neighbour_at(neighbours.list, 1400 * MS), 6);
}
