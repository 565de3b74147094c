// SPDX-License-Identifier: Apache-2.0
// Analyses that share a pass see what each would see in a replay of its own, up to where it ends.
#include <stdio.h>
#include <stdlib.h>

#include "../lib/unit.h"
#include "question/pass.h"

// What was seen: numbers of calls, and a sum that depends on their order.
struct seen {
    uint64_t last; // the number of the last event that is wanted
    uint64_t before, behind, ended, changes;
    uint64_t order, live_bytes; // live: of all devices, at the end
};

static void note(struct seen *s, uint64_t what) {
    s->order = (s->order ^ what) * UINT64_C(0x100000001b3);
}

static uint64_t sum_live(const struct ct_replay *r) {
    uint64_t bytes = 0;
    for (int d = 0; d < CT_DEVICES; d++)
        bytes += r->live.device[d].live_bytes;
    return bytes;
}

static int before(void *self, const struct ct_replay *r, const struct ct_event *e,
                  uint64_t number) {
    struct seen *s = self;
    (void)e;
    if (number > s->last)
        return 0;
    s->before++;
    note(s, number << 1);
    note(s, sum_live(r));
    return 1;
}

static void behind(void *self, const struct ct_replay *r, const struct ct_event *e,
                   uint64_t number) {
    struct seen *s = self;
    (void)e;
    s->behind++;
    note(s, number << 1 | 1);
    note(s, sum_live(r));
}

static void end(void *self, const struct ct_replay *r) {
    struct seen *s = self;
    s->ended++;
    s->live_bytes = sum_live(r);
}

static void live_changed(void *self, const struct ct_object *o, int sign) {
    struct seen *s = self;
    s->changes++;
    note(s, o->bytes + (uint64_t)(int64_t)sign);
}

static void open_trace(struct ct_trace *t) {
    const char *root = getenv("CUTRACE_ROOT");
    static char path[1024];
    struct ct_error error;
    (void)snprintf(path, sizeof path, "%s/tests/report/golden/traces/mixed.zst", root ? root : ".");
    *t = (struct ct_trace){.details = 1};
    assert_int_equal(ct_trace_open(t, path, &error), 0);
}

// The truth: a replay that is an analysis's own.
static struct seen see_alone(uint64_t last) {
    struct seen s = {.last = last};
    struct ct_replay r;
    struct ct_trace t;
    const struct ct_event *e;
    uint64_t number;
    open_trace(&t);
    ct_replay_init(&r);
    r.live.total_changed = live_changed;
    r.live.user = &s;
    r.tiles = 1;
    ct_trace_rewind(&t);
    while ((e = ct_replay_next(&r, &t, &number)) && before(&s, &r, e, number)) {
        ct_replay_apply(&r, e, number);
        behind(&s, &r, e, number);
    }
    end(&s, &r);
    ct_replay_free(&r);
    ct_trace_close(&t);
    return s;
}

static void see_together(struct seen *s, size_t n) {
    struct ct_pass pass;
    struct ct_trace t;
    open_trace(&t);
    ct_pass_init(&pass, NULL);
    for (size_t i = 0; i < n; i++) {
        const struct ct_listener a = {.self = &s[i],
                                      .before = before,
                                      .after = behind,
                                      .end = end,
                                      .live_changed = live_changed};
        ct_listeners_add(&pass.listeners, &a);
    }
    ct_pass_run(&pass, &t);
    ct_pass_free(&pass);
    ct_trace_close(&t);
}

static void is_same(const struct seen *a, const struct seen *b) {
    assert_int_equal(a->before, b->before);
    assert_int_equal(a->behind, b->behind);
    assert_int_equal(a->changes, b->changes);
    assert_int_equal(a->order, b->order);
    assert_int_equal(a->live_bytes, b->live_bytes);
    assert_int_equal(a->ended, 1);
}

TEST(each_sees_what_it_sees_alone) {
    const uint64_t last[] = {UINT64_MAX, 3, 10, 0};
    struct seen s[4];
    for (size_t i = 0; i < 4; i++)
        s[i] = (struct seen){.last = last[i]};
    see_together(s, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct seen alone = see_alone(last[i]);
        is_same(&s[i], &alone);
    }
    assert_true(s[0].before > 20 && s[0].changes > 4 && s[1].before == 4 && s[3].before == 1);
}

TEST(a_pass_ends_where_no_analysis_goes_on) {
    struct seen s[2] = {{.last = 7}, {.last = 5}};
    see_together(s, 2);
    assert_int_equal(s[0].before, 8);
    assert_int_equal(s[1].before, 6);
    assert_int_equal(s[0].ended + s[1].ended, 2);
    see_together(s, 0); // reads nothing
}

// What an analysis leaves out is not called, and objects may go to somebody else.
TEST(calls_may_be_left_out) {
    struct seen s = {.last = UINT64_MAX}, objects = {.last = 0};
    const struct seen alone = see_alone(UINT64_MAX);
    const struct ct_listener bare = {.self = &s, .before = before};
    const struct ct_listener split = {
        .self = &s, .before = before, .objects_self = &objects, .live_changed = live_changed};
    for (int i = 0; i < 2; i++) {
        struct ct_pass pass;
        struct ct_trace t;
        open_trace(&t);
        ct_pass_init(&pass, NULL);
        ct_listeners_add(&pass.listeners, i ? &split : &bare);
        ct_pass_run(&pass, &t);
        ct_pass_free(&pass);
        ct_trace_close(&t);
        assert_int_equal(s.changes + s.behind + s.ended, 0);
        assert_int_equal(objects.changes, i ? alone.changes : 0);
    }
    assert_int_equal(s.before, 2 * alone.before);
}

// One that leads takes the others with it, whatever they want.
TEST(a_pass_ends_with_the_one_that_leads) {
    struct seen leader = {.last = 7}, other = {.last = UINT64_MAX};
    const struct seen alone = see_alone(7);
    const struct ct_listener a = {
        .self = &leader, .before = before, .end = end, .live_changed = live_changed, .leads = 1};
    const struct ct_listener b = {.self = &other,
                                  .before = before,
                                  .after = behind,
                                  .end = end,
                                  .live_changed = live_changed};
    struct ct_replay r;
    struct ct_pass pass;
    struct ct_trace t;
    open_trace(&t);
    ct_pass_init(&pass, &r);
    ct_listeners_add(&pass.listeners, &a);
    ct_listeners_add(&pass.listeners, &b);
    ct_pass_run(&pass, &t);
    ct_pass_free(&pass);
    is_same(&other, &alone);
    assert_int_equal(leader.ended, 1);
    assert_int_equal(leader.changes, alone.changes);
    assert_int_equal(sum_live(&r), alone.live_bytes); // the replay outlives the pass
    assert_null(r.live.total_changed);
    ct_replay_free(&r);
    ct_trace_close(&t);
}
