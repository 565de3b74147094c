// SPDX-License-Identifier: Apache-2.0
// Totals set aside at a candidate peak, against full copies of the live state at each of them.
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "state_model.h"

#include "analyze/live_at.h"

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

static void add(const struct ct_object *o, enum ct_holding_kind kind, int sign) {
    struct ct_peak_totals *p = &marks[index_of(o)];
    ct_peak_totals_add(p, &p->kind[kind], o->stack, sign < 0 ? 0 - o->bytes : o->bytes,
                       (uint64_t)(int64_t)sign);
}

static void changed(void *user, const struct ct_object *o, int sign) {
    (void)user;
    const int is_segment = o->kind == CT_KIND_HANDLE && o->segment;
    add(o, is_segment ? CT_HOLDING_SEGMENT : CT_HOLDING_ALLOCATION, sign);
}

// A VMM object that resumes a reservation is its first owner's.
static void owner_changed(void *user, const struct ct_object *o, uint32_t by) {
    struct ct_object before = *o;
    before.stack = by;
    changed(user, &before, -1);
    changed(user, o, +1);
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

static void is_the_moment(int device, enum ct_totals_moment which, const struct copy *want) {
    struct ct_live_totals m;
    uint64_t bytes = UINT64_MAX, sum = 0;
    size_t there = 0;
    assert_false(ct_peak_totals_get(&marks[device], which, want->event + 1, CT_ROWS_BY_BLOCK, &m));
    assert_true(ct_peak_totals_get(&marks[device], which, want->event, CT_ROWS_BY_BLOCK, &m));
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

TEST(moments_are_those_that_were_marked) {
    static struct copy copies[DEVICES][CT_TOTALS_MOMENTS];
    struct events events = {.seed = 17 + test_seed(), .keys = 60};
    struct ct_event e;
    ct_replay_init(&replay);
    replay.live.total_changed = changed;
    replay.live.owner_changed = owner_changed;
    for (uint64_t number = 0; number < 30000; number++) {
        random_event(&events, &e);
        ct_replay_apply(&replay, &e, number);
        for (int d = 0; d < DEVICES; d++)
            for (unsigned w = 0; w < CT_TOTALS_MOMENTS; w++) {
                if (!random_below(&events.seed, w ? 40 : 4)) {
                    ct_peak_totals_capture(&marks[d], (enum ct_totals_moment)w, &replay, d, number);
                    copies[d][w] = copy_of(d, number);
                }
                if (number > 1000 && number % 50 == 0)
                    is_the_moment(d, (enum ct_totals_moment)w, &copies[d][w]);
            }
    }
    ct_replay_free(&replay);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_peak_totals_free(&marks[d]);
}

// ---- with PyTorch's blocks ----------------------------------------------------------------------

static void block_changed(void *user, const struct ct_object *o, int sign) {
    (void)user;
    add(o, CT_HOLDING_BLOCK, sign);
}

static void segment_changed(void *user, const struct ct_object *o, int sign) {
    (void)user;
    if (!ct_object_is_counted(&replay.live, o))
        return;
    add(o, CT_HOLDING_SEGMENT, sign);
    add(o, CT_HOLDING_ALLOCATION, -sign);
}

static void are_equal(const struct ct_live_totals *got, const struct ct_live_totals *want) {
    uint64_t sum = 0;
    assert_int_equal(got->rows, want->rows);
    assert_int_equal(got->bytes, want->bytes);
    assert_int_equal(got->count, want->count);
    assert_int_equal(got->holding_count, want->holding_count);
    for (size_t i = 0; i < got->holding_count; i++) {
        const struct ct_holding *g = &got->holdings[i], *w = &want->holdings[i];
        assert_int_equal(g->kind, w->kind);
        assert_int_equal(g->stack, w->stack);
        assert_int_equal(g->bytes, w->bytes);
        assert_int_equal(g->count, w->count);
        sum += g->bytes;
    }
    assert_int_equal(sum, got->bytes);
}

// The state that is read object by object is the truth here; any rows must add up to what is live.
TEST(rows_with_blocks_are_those_of_the_state) {
    static struct ct_live_totals copies[DEVICES][2];
    unsigned divided[2] = {0};
    struct events events = {.seed = 18 + test_seed(), .keys = 60};
    struct ct_event e;
    ct_replay_init(&replay);
    replay.live.total_changed = changed;
    replay.live.owner_changed = owner_changed;
    replay.tiles = 1;
    replay.watch = (struct ct_segment_watch){block_changed, segment_changed, NULL};
    for (uint64_t number = 0, captured = 0; number < 60000; number++) {
        random_event(&events, &e);
        ct_replay_apply(&replay, &e, number);
        if (number % 9000 == 8999) { // as at a gap: what is a segment is found out anew
            ct_torch_pool_forget(&replay.pool);
            replay.live.region_changed = NULL;
            ct_torch_pool_free(&replay.pool);
        }
        for (int d = 0; d < DEVICES; d++)
            for (int rows = 0; rows < 2; rows++) {
                struct ct_live_totals got;
                if (number % 7 == 0) {
                    ct_live_at_free(&copies[d][rows]);
                    ct_live_at_read(&copies[d][rows], &replay, d, (enum ct_holding_rows)rows);
                    assert_int_equal(copies[d][rows].bytes, replay.live.device[d].live_bytes);
                    divided[copies[d][rows].rows]++;
                    captured = number;
                    if (!rows)
                        ct_peak_totals_capture(&marks[d], CT_TOTALS_AT_PEAK, &replay, d, number);
                }
                assert_true(ct_peak_totals_get(&marks[d], CT_TOTALS_AT_PEAK, captured,
                                               (enum ct_holding_rows)rows, &got));
                are_equal(&got, &copies[d][rows]);
                ct_live_at_free(&got);
            }
    }
    assert_true(divided[CT_ROWS_BY_BLOCK] > 100 && divided[CT_ROWS_BY_SEGMENT] > 100);
    for (int d = 0; d < DEVICES; d++)
        for (int rows = 0; rows < 2; rows++)
            ct_live_at_free(&copies[d][rows]);
    ct_replay_free(&replay);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_peak_totals_free(&marks[d]);
}
