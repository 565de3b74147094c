// SPDX-License-Identifier: Apache-2.0
// What call sites held in each part of a window, and PyTorch's pool: as counted by hand from all
// values, whether one history has seen all events or several have been appended to each other.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sites/site_history.h"

enum { GROUPS = 3, EVENTS = 200, PARTS = CT_SITE_HISTORY_PARTS, FROM = 2000, TO = 9000 };

struct event {
    uint64_t t_ns;
    unsigned group;
    uint64_t bytes, born_ns; // added to what the group holds; born 0: nothing is given back
    uint64_t reserved, filled;
};

static uint64_t seed;

static uint64_t draw(uint64_t n) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (seed >> 33) % n;
}

static void make_events(struct event *e) {
    uint64_t t_ns = draw(2) ? 100 : FROM, held[GROUPS] = {0};
    const uint64_t step = 1 + draw(draw(2) ? 90 : 500);
    for (size_t i = 0; i < EVENTS; i++) {
        t_ns += draw(step);
        t_ns = t_ns < TO ? t_ns : TO;
        e[i] = (struct event){.t_ns = t_ns, .group = (unsigned)draw(GROUPS)};
        uint64_t *of = &held[e[i].group];
        e[i].bytes = draw(2) ? draw(50) : 0 - draw(*of + 1);
        *of += e[i].bytes;
        e[i].born_ns = draw(3) ? 0 : 1 + draw(t_ns);
        e[i].reserved = i && draw(3) ? e[i - 1].reserved : draw(4) * 100;
        e[i].filled = draw(e[i].reserved + 1);
    }
}

// ---- the truth ----------------------------------------------------------------------------------

static unsigned find_part(uint64_t t_ns) {
    const uint64_t part = t_ns < FROM ? 0 : (t_ns - FROM) * PARTS / (TO - FROM);
    return part < PARTS ? (unsigned)part : PARTS - 1;
}

// The lowest (highest) of the values that something had in a part of the window. `at`: after each
// event; before the first one it is 0.
static uint64_t find_extreme(const struct event *e, const uint64_t *at, unsigned part,
                             int highest) {
    uint64_t found = 0, last = 0;
    int any = 0;
    for (size_t i = 0; i <= EVENTS; i++) {
        const unsigned p = i < EVENTS ? find_part(e[i].t_ns) : PARTS;
        const int is_inside = i < EVENTS && e[i].t_ns >= FROM;
        if (!any && (p > part || (p == part && is_inside))) { // what it begins with
            found = last;
            any = 1;
        }
        if (p > part)
            break;
        last = at[i];
        if (p == part && is_inside)
            found = (highest ? last > found : last < found) ? last : found;
    }
    return found;
}

static void count_by_hand(const struct event *e, unsigned group, uint64_t *least) {
    uint64_t at[EVENTS], held = 0;
    for (size_t i = 0; i < EVENTS; i++)
        at[i] = held += e[i].group == group ? e[i].bytes : 0;
    for (unsigned part = 0; part < PARTS; part++)
        least[part] = find_extreme(e, at, part, 0);
}

static void is_counted_by_hand(const struct ct_site_histories *h, const struct event *e) {
    uint64_t reserved[EVENTS], filled[EVENTS], least[PARTS], given_back[GROUPS] = {0};
    for (size_t i = 0; i < EVENTS; i++) {
        reserved[i] = e[i].reserved;
        filled[i] = e[i].filled;
        given_back[e[i].group] += e[i].born_ns >= FROM;
    }
    for (unsigned g = 0; g < GROUPS; g++) {
        count_by_hand(e, g, least);
        assert_memory_equal(h->list[g].least, least, sizeof least);
        assert_int_equal(h->list[g].given_back, given_back[g]);
    }
    for (unsigned part = 0; part < PARTS; part++) {
        assert_int_equal(h->pool.least_reserved[part], find_extreme(e, reserved, part, 0));
        assert_int_equal(h->pool.most_filled[part], find_extreme(e, filled, part, 1));
    }
}

// ---- histories ----------------------------------------------------------------------------------

static void begin(struct ct_site_histories *h) {
    ct_site_histories_init(h, FROM, TO);
    ct_site_histories_begin(h, GROUPS);
}

static void see(struct ct_site_histories *h, const struct event *e) {
    ct_site_histories_hold(h, e->group, e->t_ns, e->bytes);
    if (e->born_ns)
        ct_site_histories_give_back(h, e->group, e->born_ns, e->t_ns, +1);
    if (e->reserved != h->pool.reserved.held || e->filled != h->pool.filled)
        ct_site_histories_note_pool(h, e->t_ns, e->reserved, e->filled);
    h->lost++;
}

// A part of the events: what was held before is restored first, by nothing that has a time.
static void see_part(struct ct_site_histories *h, const struct event *all, size_t from, size_t to,
                     uint64_t *held) {
    begin(h);
    for (size_t i = 0; i < from; i++)
        ct_site_histories_hold(h, all[i].group, 0, all[i].bytes);
    for (unsigned g = 0; g < GROUPS; g++)
        held[g] = h->list[g].held.held;
    ct_site_histories_begin_part(h, all[from].t_ns, all[from - 1].reserved, all[from - 1].filled);
    for (size_t i = from; i < to; i++)
        see(h, &all[i]);
}

static void are_counted_in_any_number_of_parts(void **state) {
    (void)state;
    for (seed = 1; seed < 400; seed++) {
        struct ct_site_histories h, next;
        struct event e[EVENTS];
        uint64_t held[GROUPS];
        const uint64_t was = seed;
        make_events(e);
        size_t at = draw(3) ? 1 + draw(EVENTS) : EVENTS;
        begin(&h);
        for (size_t i = 0; i < at; i++)
            see(&h, &e[i]);
        while (at < EVENTS) {
            const size_t to = at + 1 + draw(EVENTS - at);
            see_part(&next, e, at, to, held);
            assert_int_equal(ct_site_histories_append(&h, &next, e[at].t_ns, held), 1);
            ct_site_histories_free(&next);
            at = to;
        }
        ct_site_histories_end(&h);
        is_counted_by_hand(&h, e);
        assert_int_equal(h.lost, EVENTS);
        ct_site_histories_free(&h);
        seed = was;
    }
}

static void what_begins_with_something_else_is_not_appended(void **state) {
    (void)state;
    struct event e[EVENTS];
    seed = 7;
    make_events(e);
    for (int lie = 0; lie < 4; lie++) {
        struct ct_site_histories h, next;
        uint64_t held[GROUPS];
        begin(&h);
        for (size_t i = 0; i < 100; i++)
            see(&h, &e[i]);
        see_part(&next, e, 100, EVENTS, held);
        held[1] += lie == 1;
        next.pool.first_reserved += lie == 2;
        next.pool.first_filled += lie == 3;
        assert_int_equal(ct_site_histories_append(&h, &next, e[100].t_ns, held), lie == 0);
        ct_site_histories_free(&next);
        ct_site_histories_free(&h);
    }
}

static void births_that_count_alike(void **state) {
    (void)state;
    const struct ct_site_histories h = {.window = {FROM, TO, PARTS}};
    for (uint64_t earliest = FROM - 150; earliest < FROM + 150; earliest++)
        for (uint64_t t_ns = earliest; t_ns < FROM + 1200; t_ns += 7) {
            struct ct_site_histories each;
            const uint64_t latest = earliest + 99;
            uint64_t first[CT_SITE_LIFETIMES] = {0};
            int differ = 0;
            for (uint64_t born = earliest; born <= latest; born++) {
                begin(&each);
                ct_site_histories_give_back(&each, 0, born, t_ns, +1);
                const uint64_t none[CT_SITE_LIFETIMES] = {0},
                               *of = each.list[0].lifetimes ? each.list[0].lifetimes : none;
                if (born == earliest)
                    memcpy(first, of, sizeof first);
                differ |= memcmp(first, of, sizeof first) != 0;
                ct_site_histories_free(&each);
            }
            if (ct_site_histories_is_alike(&h, earliest, latest, t_ns))
                assert_false(differ);
            else
                assert_true(differ || (t_ns < latest)); // (or so short that it does not matter)
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_counted_in_any_number_of_parts),
        cmocka_unit_test(what_begins_with_something_else_is_not_appended),
        cmocka_unit_test(births_that_count_alike)};
    return cmocka_run_group_tests_name("site_history", tests, NULL, NULL);
}
