// SPDX-License-Identifier: Apache-2.0
// Keyframes that a part of a trace took become what a pass from the start would have taken.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/heap.h"
#include "replay/keyframes.h"

enum { FROM_EVENT = 20, FREED = 1, KEPT = 2, MOST_TIMES = 65536 };

#define EXACT_NS UINT64_C(1250)

static void allocate(struct ct_replay *r, uint64_t number, uint64_t t_ns) {
    struct ct_event e = {.op = CT_OP_ALLOC};
    CT_SET(&e, t_ns, t_ns);
    CT_SET(&e, ptr, number << 20);
    CT_SET(&e, bytes, 512);
    CT_SET(&e, device, 0);
    ct_replay_apply(r, &e, number);
}

static void release(struct ct_replay *r, uint64_t number, uint64_t of, uint64_t t_ns) {
    struct ct_event e = {.op = CT_OP_FREE};
    CT_SET(&e, t_ns, t_ns);
    CT_SET(&e, ptr, of << 20);
    ct_replay_apply(r, &e, number);
}

static uint64_t name_of(uint64_t event) {
    return event << 8 | CT_KIND_ADDRESS;
}

static void add_time(struct ct_keyframe *k, uint64_t event, uint64_t t_ns) {
    CT_HEAP_GROW(k->times.list, k->times.count, k->times.room);
    k->times.list[k->times.count++] = (struct ct_exact_time){name_of(event), t_ns};
}

static struct ct_keyframe *add_keyframe(struct ct_keyframes *to, uint64_t latest_ns) {
    struct ct_keyframe *k = ct_heap_alloc_zeroed(1, sizeof *k);
    if (!to->list) // (as many as are kept)
        to->list = ct_heap_alloc_zeroed(32, sizeof *to->list);
    to->list[to->count++] = k;
    k->latest_ns = to->latest_ns = latest_ns;
    return k;
}

// Two parts: what is live at the end of the first one, and a keyframe of each.
struct parts {
    struct ct_replay before;
    struct ct_seam seam;
    struct ct_keyframes first, second;
};

static struct parts *begin_parts(uint64_t latest_ns, uint64_t own_latest_ns) {
    static struct parts parts, *p = &parts;
    *p = (struct parts){.first = {.count = 0}};
    ct_replay_init(&p->before, NULL, NULL);
    allocate(&p->before, FREED, 1111);
    allocate(&p->before, KEPT, EXACT_NS);
    release(&p->before, 3, FREED, 1260);
    p->before.resets = 7;
    p->before.gaps = 9;
    p->before.readings.device[0].measured.contexts = 5;
    ct_seam_take(&p->seam, &p->before, 1000, 2000);
    p->seam.state.resets = 1;
    p->seam.state.gaps = 2;
    p->seam.state.readings.device[0].measured.contexts = 3;
    add_keyframe(&p->first, latest_ns);
    struct ct_keyframe *k = add_keyframe(&p->second, own_latest_ns);
    k->state = p->seam.state;
    k->state.gaps++; // a gap of its own
    return p;
}

static void append(struct parts *p) {
    ct_keyframes_append(&p->first, &p->second, FROM_EVENT, &p->seam, &p->before);
}

static void end_parts(struct parts *p) {
    ct_keyframes_free(&p->first);
    ct_keyframes_free(&p->second);
    ct_replay_free(&p->before);
}

static void readings_and_counts_are_those_of_the_whole(void **state) {
    struct parts *p = begin_parts(1300, 2500);
    (void)state;
    append(p);
    assert_int_equal(p->first.count, 2);
    assert_int_equal(p->second.count, 0);
    const struct ct_small_state *s = &p->first.list[1]->state;
    assert_int_equal(s->resets, 7);
    assert_int_equal(s->gaps, 10);
    assert_int_equal(s->readings.device[0].measured.contexts, 5);
    end_parts(p);
}

// A checkpoint may claim any time of the tick.
static void inherited_times_are_exact(void **state) {
    struct parts *p = begin_parts(1300, 2500);
    (void)state;
    add_time(p->second.list[0], KEPT, 1201);
    add_time(p->second.list[0], FROM_EVENT, 2001);
    append(p);
    const struct ct_exact_times *t = &p->first.list[1]->times;
    assert_int_equal(t->count, 2);
    assert_int_equal(t->list[0].object, name_of(KEPT));
    assert_int_equal(t->list[0].t_ns, EXACT_NS);
    assert_int_equal(t->list[1].object, name_of(FROM_EVENT));
    assert_int_equal(t->list[1].t_ns, 2001);
    end_parts(p);
}

// A keyframe may lie behind the first events of its part, or before all of them.
static void the_latest_time_is_that_of_all_events_before(void **state) {
    static const uint64_t own[] = {0, 2500};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct parts *p = begin_parts(1300, own[i]);
        append(p);
        const uint64_t want = own[i] ? own[i] : 1300;
        assert_int_equal(p->first.list[1]->latest_ns, want);
        assert_int_equal(p->first.latest_ns, want);
        end_parts(p);
    }
}

static void one_with_too_many_times_is_left_out(void **state) {
    (void)state;
    for (uint64_t more = 0; more < 2; more++) {
        struct parts *p = begin_parts(1300, 2500);
        for (uint64_t i = 0; i < MOST_TIMES - 1 + more; i++)
            allocate(&p->before, 100 + i, 1301 + i * 100);
        append(p);
        assert_int_equal(p->first.count, more ? 1 : 2);
        end_parts(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readings_and_counts_are_those_of_the_whole),
        cmocka_unit_test(inherited_times_are_exact),
        cmocka_unit_test(the_latest_time_is_that_of_all_events_before),
        cmocka_unit_test(one_with_too_many_times_is_left_out)};
    return cmocka_run_group_tests_name("keyframes", tests, NULL, NULL);
}
