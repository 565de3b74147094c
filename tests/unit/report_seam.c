// SPDX-License-Identifier: Apache-2.0
// Where a part of a trace begins: each field of the state there that the part before contradicts is
// seen, what only rounding differs in is not, and what a checkpoint lacks is filled in.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "replay/keyframes.h"

enum { DEVICE = 2, FREE = 5, RANGES = 2, READINGS = 11 };

#define WARM_NS UINT64_C(700)
#define SEAM_NS UINT64_C(5050)

// The end of the part before, and the same state where the next part begins, as its checkpoint has
// it: times in ticks, and earlier readings only back to the checkpoint.
struct both {
    struct ct_replay before;
    struct ct_seam seam;
};

static void fill_device(struct ct_device_usage *d) {
    d->seen = 1;
    d->last = ct_reading_make(60, 100, 30, 1250);
    d->last.in_flight = 2;
    d->last.expected = 3;
    d->total = 100;
    d->tracked = 31;
    d->free_known = 1;
    d->free_min = 50;
    d->free_min_t_ns = 640;
    d->process_known = 1;
    d->process_untracked = 7;
    d->split_unexplained = 9;
    d->split_t_ns = 650;
    d->measured.bytes[CT_MEASURED_MODULES] = 4;
    d->measured.known[CT_MEASURED_MODULES] = 1;
    d->measured.contexts = 2;
    d->measured.instantiations = 3;
    d->measured.unmeasured_instantiations = 1;
    d->measured.call_ns = 900;
    // The newest lie behind the checkpoint.
    for (d->readings = 0; d->readings < READINGS; d->readings++)
        d->earlier[d->readings % CT_EARLIER_READINGS] = (struct ct_earlier_reading){
            .t_ns = 120 + 100 * d->readings, .unexplained = d->readings, .process_known = 1};
}

static struct both *make_both(void) {
    static struct both both, *b = &both;
    memset(b, 0, sizeof *b);
    ct_replay_init(&b->before, NULL, NULL);
    struct ct_replay *r = &b->before;
    r->is_known = 1;
    r->resets = 5;
    r->gaps = 8;
    fill_device(&r->readings.device[DEVICE]);
    r->readings.pending = UINT64_C(1) << FREE;
    r->readings.pending_free[FREE] =
        (struct ct_pending_free){.t_ns = 5000, .bytes = 6, .thread = 5, .device = DEVICE};
    for (uint32_t i = 0; i < RANGES; i++)
        r->live.open.range[i] = (struct ct_open_range){.t_ns = 300 + i,
                                                       .event = 10 + i,
                                                       .handle = i,
                                                       .op = CT_OP_RANGE_START,
                                                       .thread = 1,
                                                       .api = 2,
                                                       .text = 3,
                                                       .domain = 4,
                                                       .category = 5};
    r->live.open.used = RANGES;
    r->live.open.forgotten = 1;
    r->pool.on = 1;
    r->pool.device[DEVICE].seen = 1;
    r->pool.device[DEVICE].unreconciled = -4;
    r->pool.device[DEVICE].own_reported = 12;
    ct_seam_take(&b->seam, r, WARM_NS, SEAM_NS);
    b->seam.state.resets = 1;
    b->seam.state.gaps = 2;
    return b;
}

// Of the part.
static struct ct_device_usage *device_of(struct both *b) {
    return &b->seam.state.readings.device[DEVICE];
}

static struct ct_earlier_reading *earlier_of(struct both *b, uint64_t back) {
    struct ct_device_usage *d = device_of(b);
    return &d->earlier[(d->readings - 1 - back) % CT_EARLIER_READINGS];
}

static int fits(struct both *b) {
    return ct_seam_fits(&b->seam, &b->before);
}

// ---- what must be the same ----------------------------------------------------------------------

// A field of the part's state, by its place. Its lowest bit is turned over.
struct field {
    const char *name;
    size_t at;
};
#define FIELD(what) \
    { #what, offsetof(struct ct_seam, what) }
#define DEVICE_FIELD(what) FIELD(state.readings.device[DEVICE].what)
#define RANGE_FIELD(what) FIELD(state.open.range[1].what)

static const struct field compared[] = {
    FIELD(state.is_known),
    FIELD(pool_is_on),
    FIELD(state.pool[DEVICE].seen),
    FIELD(state.pool[DEVICE].unreconciled),
    FIELD(state.pool[DEVICE].own_reported),
    DEVICE_FIELD(seen),
    DEVICE_FIELD(last.known),
    DEVICE_FIELD(last.free),
    DEVICE_FIELD(last.total),
    DEVICE_FIELD(last.used),
    DEVICE_FIELD(last.tracked),
    DEVICE_FIELD(last.in_flight),
    DEVICE_FIELD(last.expected),
    DEVICE_FIELD(last.corrected),
    DEVICE_FIELD(total),
    DEVICE_FIELD(tracked),
    DEVICE_FIELD(free_known),
    DEVICE_FIELD(free_min),
    DEVICE_FIELD(process_known),
    DEVICE_FIELD(process_untracked),
    DEVICE_FIELD(split_unexplained),
    DEVICE_FIELD(measured.bytes[CT_MEASURED_MODULES]),
    DEVICE_FIELD(measured.known[CT_MEASURED_MODULES]),
    DEVICE_FIELD(measured.instantiations),
    DEVICE_FIELD(measured.unmeasured_instantiations),
    DEVICE_FIELD(measured.call_ns),
    FIELD(state.readings.pending_free[FREE].t_ns),
    FIELD(state.readings.pending_free[FREE].bytes),
    FIELD(state.readings.pending_free[FREE].thread),
    FIELD(state.readings.pending_free[FREE].device),
    FIELD(state.open.forgotten),
    RANGE_FIELD(t_ns),
    RANGE_FIELD(event),
    RANGE_FIELD(handle),
    RANGE_FIELD(op),
    RANGE_FIELD(thread),
    RANGE_FIELD(api),
    RANGE_FIELD(text),
    RANGE_FIELD(domain),
    RANGE_FIELD(category),
};

static void each_field_counts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof compared / sizeof *compared; i++) {
        struct both *b = make_both();
        unsigned char *byte = (unsigned char *)&b->seam + compared[i].at;
        assert_true(fits(b));
        *byte ^= 1;
        if (fits(b))
            fail_msg("%s differs and is not seen", compared[i].name);
    }
}

static void other_ranges_are_seen(void **state) {
    (void)state;
    struct both *b = make_both();
    b->seam.state.open.used--;
    assert_false(fits(b));
    b = make_both();
    b->before.live.open.used--;
    assert_false(fits(b));
}

static void resumed_memory_proves_nothing(void **state) {
    (void)state;
    struct both *b = make_both();
    ct_resumers_note(&b->before.resumers, CT_RESUMED_BLOCK, 1, 2);
    assert_false(fits(b));
    ct_resumers_free(&b->before.resumers);
}

// A free of one side that the other side lacks, unless it is so old that nothing waits for it.
static void frees_under_way_are_compared_both_ways(void **state) {
    (void)state;
    for (int of_before = 0; of_before < 2; of_before++) {
        struct both *b = make_both();
        struct ct_readings *r = of_before ? &b->before.readings : &b->seam.state.readings;
        r->pending |= 2; // (the other one may have had the same, but that thread went on)
        b->before.readings.pending_free[1].t_ns = SEAM_NS;
        b->seam.state.readings.pending_free[1].t_ns = SEAM_NS;
        assert_false(fits(b));
        b->seam.t_ns = SEAM_NS + CT_READING_FREE_NS;
        assert_false(fits(b));
        b->seam.t_ns++;
        assert_true(fits(b));
    }
}

// ---- readings before the last one ---------------------------------------------------------------

static void earlier_readings_count_back_to_the_checkpoint(void **state) {
    (void)state;
    struct both *b = make_both();
    uint64_t back = 0;
    for (; earlier_of(b, back)->t_ns > WARM_NS; back++) {
        earlier_of(b, back)->unexplained++;
        assert_false(fits(b));
        b = make_both();
        earlier_of(b, back)->process_untracked++;
        assert_false(fits(b));
        b = make_both();
        earlier_of(b, back)->process_known = 0;
        assert_false(fits(b));
        b = make_both();
        earlier_of(b, back)->t_ns += 100;
        assert_false(fits(b));
        b = make_both();
    }
    assert_int_equal(back, 5);
    earlier_of(b, back)->unexplained++; // the last one before the checkpoint
    assert_false(fits(b));
    b = make_both();
    earlier_of(b, back + 1)->unexplained++;
    assert_true(fits(b));
    device_of(b)->readings -= READINGS - 6; // the part has those alone, in other places
    for (uint64_t i = 0; i < 6; i++)
        device_of(b)->earlier[i] =
            b->before.readings.device[DEVICE].earlier[(5 + i) % CT_EARLIER_READINGS];
    assert_true(fits(b));
    device_of(b)->readings--;
    assert_false(fits(b));
}

// If no reading lies behind the checkpoint, a call asks for the last one at most.
static void earlier_readings_do_not_count_if_the_last_is_older(void **state) {
    (void)state;
    struct both *b = make_both();
    b->seam.warm_ns = 1300;
    earlier_of(b, 0)->unexplained++;
    assert_true(fits(b));
    b = make_both(); // no reading at all, but earlier ones: made up
    b->before.readings.device[DEVICE].last.known = device_of(b)->last.known = 0;
    assert_false(fits(b));
    b->before.readings.device[DEVICE].readings = device_of(b)->readings = 0;
    assert_true(fits(b));
}

// ---- what may differ ----------------------------------------------------------------------------

static void times_of_a_tick_are_the_same(void **state) {
    (void)state;
    struct both *b = make_both();
    struct ct_device_usage *d = device_of(b);
    d->last.t_ns = 1200;
    d->free_min_t_ns = 600;
    d->split_t_ns = 600;
    earlier_of(b, 0)->t_ns -= earlier_of(b, 0)->t_ns % 100;
    assert_true(fits(b));
    d->free_min_t_ns = 700;
    assert_false(fits(b));
    d->free_min_t_ns = 600;
    d->last.t_ns = 1300;
    assert_false(fits(b));
}

// What is not shown, or what the next call that is measured sets.
static void what_nobody_looks_at_may_differ(void **state) {
    (void)state;
    struct both *b = make_both();
    device_of(b)->measured.call_ns = 100;
    b->before.readings.device[DEVICE].measured.call_ns = WARM_NS;
    assert_true(fits(b));
    b = make_both();
    device_of(b)->process_known = b->before.readings.device[DEVICE].process_known = 0;
    device_of(b)->split_unexplained++;
    assert_true(fits(b));
    b = make_both();
    device_of(b)->last.known = b->before.readings.device[DEVICE].last.known = 0;
    device_of(b)->readings = b->before.readings.device[DEVICE].readings = 0;
    device_of(b)->last.free++;
    assert_true(fits(b));
}

static void contexts_are_compared_apart(void **state) {
    (void)state;
    struct both *b = make_both();
    assert_true(ct_seam_has_contexts(&b->seam, &b->before));
    device_of(b)->measured.contexts--;
    assert_true(fits(b));
    assert_false(ct_seam_has_contexts(&b->seam, &b->before));
}

// ---- filling in ---------------------------------------------------------------------------------

// The part's own: two readings behind the seam, the first of which takes the inherited one's place.
static struct ct_readings read_on(struct both *b) {
    struct ct_device_usage *d = device_of(b);
    d->last.t_ns = 1200;
    d->free_min_t_ns = 600;
    d->split_t_ns = 600;
    d->measured.contexts = 1;
    d->readings = 4;
    struct ct_readings now = b->seam.state.readings;
    d = &now.device[DEVICE];
    d->earlier[d->readings++ % CT_EARLIER_READINGS] =
        (struct ct_earlier_reading){.t_ns = 1200, .unexplained = 70};
    d->earlier[d->readings++ % CT_EARLIER_READINGS] =
        (struct ct_earlier_reading){.t_ns = 6000, .unexplained = 71};
    d->last.t_ns = 6100;
    d->measured.contexts = 4;
    return now;
}

static void what_a_checkpoint_lacks_is_filled_in(void **state) {
    (void)state;
    struct both *b = make_both();
    struct ct_readings now = read_on(b);
    struct ct_device_usage *d = &now.device[DEVICE];
    const struct ct_device_usage *old = &b->before.readings.device[DEVICE];
    uint64_t resets = 2, gaps = 4;
    ct_seam_complete(&b->seam, &b->before, &now, &resets, &gaps);
    assert_int_equal(resets, 6);
    assert_int_equal(gaps, 10);
    assert_int_equal(d->readings, READINGS + 2);
    for (uint64_t i = 0; i < CT_EARLIER_READINGS; i++) {
        const struct ct_earlier_reading *e = &d->earlier[i];
        if (i == READINGS % CT_EARLIER_READINGS) {
            assert_int_equal(e->t_ns, 1250); // the exact time of the inherited one
            assert_int_equal(e->unexplained, 70);
        } else if (i == (READINGS + 1) % CT_EARLIER_READINGS) {
            assert_int_equal(e->t_ns, 6000);
            assert_int_equal(e->unexplained, 71);
        } else {
            assert_memory_equal(e, &old->earlier[i], sizeof *e);
        }
    }
    assert_int_equal(d->measured.contexts, 5);
    assert_int_equal(d->last.t_ns, 6100);
    assert_int_equal(d->free_min_t_ns, 640);
    assert_int_equal(d->split_t_ns, 650);
}

static void inherited_times_become_exact_and_others_stay(void **state) {
    (void)state;
    struct both *b = make_both();
    struct ct_readings now = read_on(b);
    struct ct_device_usage *d = &now.device[DEVICE];
    uint64_t resets = 0, gaps = 0;
    d->last.t_ns = 1200; // still the inherited one
    d->free_min_t_ns = 6000;
    d->split_t_ns = 6001;
    ct_seam_complete(&b->seam, &b->before, &now, &resets, &gaps);
    assert_int_equal(d->last.t_ns, 1250);
    assert_int_equal(d->free_min_t_ns, 6000);
    assert_int_equal(d->split_t_ns, 6001);
    assert_int_equal(ct_seam_exact_reading_ns(&b->seam, &b->before, DEVICE, 1200), 1250);
    assert_int_equal(ct_seam_exact_reading_ns(&b->seam, &b->before, DEVICE, 1201), 1201);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_counts),
        cmocka_unit_test(other_ranges_are_seen),
        cmocka_unit_test(resumed_memory_proves_nothing),
        cmocka_unit_test(frees_under_way_are_compared_both_ways),
        cmocka_unit_test(earlier_readings_count_back_to_the_checkpoint),
        cmocka_unit_test(earlier_readings_do_not_count_if_the_last_is_older),
        cmocka_unit_test(times_of_a_tick_are_the_same),
        cmocka_unit_test(what_nobody_looks_at_may_differ),
        cmocka_unit_test(contexts_are_compared_apart),
        cmocka_unit_test(what_a_checkpoint_lacks_is_filled_in),
        cmocka_unit_test(inherited_times_become_exact_and_others_stay),
    };
    return cmocka_run_group_tests_name("seam", tests, NULL, NULL);
}
