// SPDX-License-Identifier: Apache-2.0
// The curve of a process against a list of all its changes, and what remains of it when it is
// thinned.
#include <stdlib.h>

#include "../lib/draw.h"
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "analyze/tracked_curve.h"

enum { CHANGES = 2000 };

struct change {
    uint64_t t_ns, began_ns, bytes;
};

// Draws calls of up to 50 ns, one behind the other in the order of their ends.
static void draw_changes(struct change *c) {
    uint64_t t = 100;
    for (int i = 0; i < CHANGES; i++) {
        t += draw(4);
        c[i] = (struct change){t, t - draw(50), draw(1000)};
    }
}

static uint64_t bytes_at(const struct change *c, uint64_t t) {
    uint64_t bytes = 0;
    for (int i = 0; i < CHANGES && c[i].t_ns <= t; i++)
        bytes = c[i].bytes;
    return bytes;
}

// Of changes at the same time the last one counts, from the begin of the first call on.
static uint64_t in_flight_at(const struct change *c, uint64_t t) {
    uint64_t bytes = 0, before = bytes_at(c, t);
    for (int i = 0; i < CHANGES; i++) {
        uint64_t began = c[i].began_ns;
        int last = i;
        while (last + 1 < CHANGES && c[last + 1].t_ns == c[i].t_ns)
            began = c[++last].began_ns < began ? c[last].began_ns : began;
        if (c[i].t_ns > t) {
            bytes += began < t && c[last].bytes > before ? c[last].bytes - before : 0;
            before = c[last].bytes;
        }
        i = last;
    }
    return bytes;
}

static uint64_t freed_before(const struct change *c, uint64_t t, uint64_t before_ns) {
    uint64_t bytes = 0, last = 0;
    for (uint64_t at = 0; at <= t; at++) {
        const uint64_t now = bytes_at(c, at);
        if (t - at <= before_ns && last > now)
            bytes += last - now;
        last = now;
    }
    return bytes;
}

TEST(questions_have_the_answers_of_the_list) {
    chance = test_seed();
    for (unsigned round = 0; round < 5; round++) {
        static struct change changes[CHANGES];
        struct ct_tracked_curve curve = {0};
        uint64_t high = 0;
        draw_changes(changes);
        for (int i = 0; i < CHANGES; i++) {
            ct_tracked_curve_add(&curve, changes[i].t_ns, changes[i].began_ns, changes[i].bytes);
            high = changes[i].bytes > high ? changes[i].bytes : high;
        }
        ct_tracked_curve_finish(&curve);
        assert_int_equal(curve.high, high);
        assert_false(curve.is_thinned);
        for (uint64_t t = 90; t < changes[CHANGES - 1].t_ns + 10; t += 3) {
            assert_int_equal(ct_tracked_curve_at(&curve, t), bytes_at(changes, t));
            assert_int_equal(ct_tracked_curve_in_flight(&curve, t), in_flight_at(changes, t));
        }
        for (uint64_t t = 90; t < 600; t += 7)
            assert_int_equal(ct_tracked_curve_freed(&curve, t, 12), freed_before(changes, t, 12));
        ct_tracked_curve_free(&curve);
    }
}

// A thinned curve has points that were there, among them the highest one.
TEST(a_thinned_curve_keeps_the_highest_point) {
    struct ct_tracked_curve curve = {0};
    const uint64_t n = 3 * (uint64_t)CT_TRACKED_CURVE_POINTS, highest = n / 2 + 1;
    for (uint64_t t = 1; t <= n; t++)
        ct_tracked_curve_add(&curve, t, t, t == highest ? 5000 : t % 1000);
    ct_tracked_curve_finish(&curve);
    assert_true(curve.is_thinned);
    assert_true(curve.count <= CT_TRACKED_CURVE_POINTS);
    assert_int_equal(curve.high, 5000);
    assert_int_equal(curve.high_t_ns, highest);
    assert_int_equal(ct_tracked_curve_at(&curve, highest), 5000);
    for (size_t i = 0; i < curve.count; i++) {
        const struct ct_tracked_point *p = &curve.points[i];
        assert_int_equal(p->bytes, p->t_ns == highest ? 5000 : p->t_ns % 1000);
        assert_true(!i || p->t_ns > curve.points[i - 1].t_ns);
    }
    ct_tracked_curve_free(&curve);
}
