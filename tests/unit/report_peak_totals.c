// SPDX-License-Identifier: Apache-2.0
// Totals set aside at a candidate peak, against full copies of the live state at each of them.
#include "state_model.h"

#include "analyze/peak_totals.h"

enum { STACKS = 9, DEVICES = 3 };

struct copy {
    uint64_t event, host_bytes, tracked;
    uint64_t bytes[STACKS], count[STACKS];
};

static struct ct_replay replay;
static struct ct_peak_totals marks[CT_DEVICES];

static int index_of(const struct ct_object *o) {
    return o->device == CT_NO_DEVICE ? CT_MAX_DEVICES : o->device;
}

static void changed(void *user, const struct ct_object *o, int sign) {
    (void)user;
    ct_peak_totals_add(&marks[index_of(o)], o->stack, sign < 0 ? 0 - o->bytes : o->bytes,
                       (uint64_t)(int64_t)sign);
}

static struct copy copy_of(int device, uint64_t event) {
    struct copy c = {.event = event, .host_bytes = replay.live.host_bytes};
    c.tracked = ct_live_tracked(&replay.live.device[device]);
    for (uint32_t i = 0; i < ct_live_slot_count(&replay.live); i++) {
        const struct ct_object *o = ct_live_object_at(&replay.live, i);
        if (!o || !ct_object_is_counted(&replay.live, o) || index_of(o) != device)
            continue;
        c.bytes[o->stack] += o->bytes;
        c.count[o->stack]++;
    }
    return c;
}

static void is_the_moment(int device, enum ct_totals_kind which, const struct copy *want) {
    struct ct_live_totals m;
    uint64_t bytes = UINT64_MAX, sum = 0;
    size_t there = 0;
    assert_false(ct_peak_totals_get(&marks[device], which, want->event + 1, &m));
    assert_true(ct_peak_totals_get(&marks[device], which, want->event, &m));
    assert_int_equal(m.host_bytes, want->host_bytes);
    assert_int_equal(m.split.tracked, want->tracked);
    for (unsigned s = 0; s < STACKS; s++)
        there += want->count[s] != 0;
    assert_int_equal(m.holding_count, there);
    for (size_t i = 0; i < m.holding_count; i++) {
        const struct ct_holding *h = &m.holdings[i];
        assert_int_equal(h->bytes, want->bytes[h->stack]);
        assert_int_equal(h->count, want->count[h->stack]);
        assert_true(h->bytes <= bytes); // the most bytes first
        bytes = h->bytes;
        sum += h->bytes;
    }
    assert_int_equal(m.bytes, sum);
    ct_live_at_free(&m);
}

static void moments_are_those_that_were_marked(void **state) {
    static struct copy copies[DEVICES][CT_TOTALS_KINDS];
    struct events events = {.seed = 17, .keys = 60};
    struct ct_event e;
    (void)state;
    ct_replay_init(&replay, changed, NULL);
    for (uint64_t number = 0; number < 30000; number++) {
        random_event(&events, &e);
        ct_replay_apply(&replay, &e, number);
        for (int d = 0; d < DEVICES; d++)
            for (unsigned w = 0; w < CT_TOTALS_KINDS; w++) {
                if (!random_below(&events.seed, w ? 40 : 4)) {
                    ct_peak_totals_capture(&marks[d], (enum ct_totals_kind)w, &replay, d, number);
                    copies[d][w] = copy_of(d, number);
                }
                if (number > 1000 && number % 50 == 0)
                    is_the_moment(d, (enum ct_totals_kind)w, &copies[d][w]);
            }
    }
    ct_replay_free(&replay);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_peak_totals_free(&marks[d]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moments_are_those_that_were_marked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
