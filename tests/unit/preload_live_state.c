// SPDX-License-Identifier: Apache-2.0
// The recorder's history, which it gathers by cells, against the one that adds the state after each
// event, as a copy of a trace does.
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "state_model.h"

#include "write/live_state.h"

enum { EVENTS = 60000, EVENT_NS = 100 };

// What the random readings say of the device's use, a late event may correct.
static const enum ct_quantity counted[] = {CT_QUANTITY_TRACKED, CT_QUANTITY_RESERVED,
                                           CT_QUANTITY_ALLOCATED};

static struct ct_live live;
static struct ct_readings readings;
static struct ct_history each;

static void add(const struct ct_event *e, int device) {
    const struct ct_quantities now = ct_quantities_now(&live, &readings, device, NULL);
    ct_history_count(&each, e->t_ns, device, 1, (uint64_t)ct_event_is_oom(e));
    ct_history_add(&each, e->t_ns, device, &now);
}

TEST(history_has_the_state_after_each_event) {
    struct memory memory = {0};
    struct events from = {.seed = 20 + test_seed(), .keys = 200};
    assert_int_equal(ct_live_state_init(), 0);
    const uint64_t start = ct_live_state_get_history()->start_ns;
    ct_live_init(&live, memory_resize, &memory);
    ct_history_begin(&each, start);
    for (uint64_t number = 0; number < EVENTS; number++) {
        struct ct_event e;
        random_event(&from, &e);
        e.t_ns = start + e.t_ns * EVENT_NS;
        ct_live_state_apply(&e, number, ct_live_state_prefetch_line(&e));
        ct_live_apply(&live, &e, number);
        ct_readings_apply(&readings, &live, &e);
        const int device = ct_event_device_index(&e);
        if (e.op != CT_OP_AMEND && device != CT_MAX_DEVICES && readings.device[device].seen)
            add(&e, device);
    }
    const struct ct_history *gathered = ct_live_state_get_history();
    assert_int_equal(gathered->cells, each.cells);
    assert_true(each.cells > 100);
    for (uint32_t i = 0; i < each.cells; i++) {
        const struct ct_history_cell *a = &gathered->cell[i], *b = &each.cell[i];
        assert_int_equal(a->device, b->device);
        assert_int_equal(a->bucket, b->bucket);
        assert_int_equal(a->events, b->events);
        assert_int_equal(a->ooms, b->ooms);
        for (size_t q = 0; q < sizeof counted / sizeof *counted; q++)
            assert_memory_equal(&a->curve[counted[q]], &b->curve[counted[q]], sizeof a->curve[0]);
    }
    ct_live_release(&live);
}
