// SPDX-License-Identifier: Apache-2.0
// What call sites held in each part of a window, and PyTorch's pool: as counted by hand from all
// values.
#include <stdlib.h>

#include "../lib/draw.h"
#include "../lib/unit.h"
#include "sites/site_history.h"

enum { GROUPS = 3, EVENTS = 200, PARTS = CT_SITE_HISTORY_PARTS, FROM = 2000, TO = 9000 };

struct event {
    uint64_t t_ns;
    unsigned group;
    uint64_t bytes, born_ns; // added to what the group holds; born 0: nothing is given back
    uint64_t reserved, filled;
};

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

TEST(are_counted_as_by_hand) {
    for (unsigned round = 0; round < 400; round++) {
        struct ct_site_histories h;
        struct event e[EVENTS];
        make_events(e);
        begin(&h);
        for (size_t i = 0; i < EVENTS; i++)
            see(&h, &e[i]);
        ct_site_histories_end(&h);
        is_counted_by_hand(&h, e);
        assert_int_equal(h.lost, EVENTS);
        ct_site_histories_free(&h);
    }
}

// The end of the quarter of an octave in which a lifetime lies.
static uint64_t round_up(uint64_t ns) {
    uint64_t quarter = 1;
    while (ns >= 8 * quarter)
        quarter *= 2;
    return (ns / quarter + 1) * quarter;
}

TEST(lifetimes_are_known_to_a_quarter_of_an_octave) {
    for (uint64_t bound = 8; bound < UINT64_C(1) << 50; bound *= 2)
        for (uint64_t ns = bound - 3; ns < bound + 3; ns++) {
            struct ct_site_histories h;
            begin(&h);
            ct_site_histories_give_back(&h, 0, FROM, FROM + ns, +1);
            assert_int_equal(ct_site_history_lifetime(&h.list[0], 0), round_up(ns));
            assert_int_equal(ct_site_history_lifetime(&h.list[0], 1), 0);
            ct_site_histories_free(&h);
        }
}
