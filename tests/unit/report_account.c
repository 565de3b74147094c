// SPDX-License-Identifier: Apache-2.0
// The account of a device: rows that add up, whatever the memory split knows.

#include "../lib/unit.h"
#include "analyze/account.h"

static struct ct_definitions names;
static struct ct_phases phases;

BEFORE_EACH {
    ct_definitions_init(&names);
    ct_phases_init(&phases, &names, NULL);
    return 0;
}

AFTER_EACH {
    ct_phases_free(&phases);
    ct_definitions_free(&names);
    return 0;
}

static struct ct_holding holdings[] = {
    {.kind = CT_HOLDING_BLOCK, .bytes = 600, .count = 6},
    {.kind = CT_HOLDING_IDLE, .bytes = 100, .count = 2},
    {.kind = CT_HOLDING_ALLOCATION, .bytes = 50, .count = 1},
};

// 750 bytes are live, of which 30 are managed, and CUDA's pools reserve 20 more.
static struct ct_live_totals make_totals(void) {
    return (struct ct_live_totals){.holdings = holdings,
                                   .holding_count = sizeof holdings / sizeof *holdings,
                                   .split = {.tracked = 740, .managed = 30, .pool_idle = 20}};
}

TEST(tracked_rows_add_up) {
    struct ct_live_totals t = make_totals();
    struct ct_account a;
    ct_account_make(&a, &phases, &t);
    assert_false(a.known);
    assert_int_equal(ct_account_sum(&a), 740);
    assert_int_equal(a.row[CT_COMPONENT_OTHER].bytes, 620);
    assert_int_equal(a.row[CT_COMPONENT_OTHER].count, 7);
    assert_true(a.row[CT_COMPONENT_OTHER].inferred); // without what is managed
    assert_int_equal(a.row[CT_ACCOUNT_POOL_IDLE].bytes, 100);
    assert_int_equal(a.row[CT_ACCOUNT_POOL_IDLE].count, 2);
    assert_int_equal(a.row[CT_ACCOUNT_MEMPOOL_IDLE].bytes, 20);
}

TEST(all_rows_add_up_to_the_device) {
    struct ct_live_totals t = make_totals();
    struct ct_account a;
    t.split.total = 2000;
    t.split.used = 1500;
    t.split.free = 500;
    t.split.in_flight = 10;
    t.split.untracked = 400;
    t.split.others = 300;
    t.split.unattributed = 50;
    t.split.unexplained = 750;
    t.split.used_known = t.split.split_known = 1;
    t.split.measured[CT_MEASURED_GRAPHS] = 150;
    t.split.measured[CT_MEASURED_CONTEXTS] = 100;
    ct_account_make(&a, &phases, &t);
    assert_true(a.known);
    assert_int_equal(a.capacity, 2000);
    assert_int_equal(ct_account_sum(&a), 2000);
    assert_int_equal(a.row[CT_ACCOUNT_GRAPHS].bytes, 150);
    assert_int_equal(a.row[CT_ACCOUNT_UNMEASURED].bytes, 150);
    assert_int_equal(a.row[CT_ACCOUNT_OTHERS].bytes, 300);
    ct_account_set_siblings(&a, 200);
    assert_int_equal(a.row[CT_ACCOUNT_SIBLINGS].bytes, 200);
    assert_int_equal(a.row[CT_ACCOUNT_OTHERS].bytes, 100);
    ct_account_set_siblings(&a, 500); // more than others have
    assert_int_equal(a.row[CT_ACCOUNT_OTHERS].bytes, 0);
    assert_int_equal(ct_account_sum(&a), 2000);
    // more was measured than there is: nothing is known of the parts
    t.split.measured[CT_MEASURED_MODULES] = 300;
    ct_account_make(&a, &phases, &t);
    assert_int_equal(a.row[CT_ACCOUNT_GRAPHS].bytes, 0);
    assert_int_equal(a.row[CT_ACCOUNT_UNMEASURED].bytes, 400);
    assert_int_equal(ct_account_sum(&a), 2000);
}

TEST(without_nvml_the_rest_is_of_anyone) {
    struct ct_live_totals t = make_totals();
    struct ct_account a;
    t.split.total = 2000;
    t.split.used = 1500;
    t.split.free = 500;
    t.split.unexplained = t.split.unattributed = 760;
    t.split.used_known = 1;
    ct_account_make(&a, &phases, &t);
    assert_int_equal(a.row[CT_ACCOUNT_UNMEASURED].bytes, 760);
    assert_int_equal(a.row[CT_ACCOUNT_UNATTRIBUTED].bytes, 0);
    assert_int_equal(ct_account_sum(&a), 2000);
    ct_account_set_siblings(&a, 100);
    assert_int_equal(a.row[CT_ACCOUNT_SIBLINGS].bytes, 100);
    assert_int_equal(ct_account_sum(&a), 2000);
}

// A trace that says that it holds more than the device has.
TEST(a_contradiction_is_no_account_of_the_device) {
    struct ct_live_totals t = make_totals();
    struct ct_account a;
    t.split.total = t.split.used = 700;
    t.split.used_known = 1;
    ct_account_make(&a, &phases, &t);
    assert_false(a.known);
    assert_int_equal(ct_account_sum(&a), 740);
}

TEST(segments_stand_for_unknown_blocks) {
    struct ct_holding one = {.kind = CT_HOLDING_SEGMENT, .bytes = 700, .count = 3};
    const struct ct_live_totals t = {
        .holdings = &one, .holding_count = 1, .split = {.tracked = 700}};
    struct ct_account a;
    ct_account_make(&a, &phases, &t);
    assert_int_equal(a.row[CT_ACCOUNT_SEGMENTS].bytes, 700);
    assert_string_equal(ct_account_row_name(CT_ACCOUNT_SEGMENTS), "pool-segments");
    assert_string_equal(ct_account_row_name((enum ct_account_row_kind)CT_COMPONENT_WEIGHTS),
                        "weights");
    assert_string_equal(ct_account_row_title(CT_ACCOUNT_FREE), "free");
}
