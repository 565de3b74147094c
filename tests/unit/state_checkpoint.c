// SPDX-License-Identifier: Apache-2.0
// The state as checkpoint records and back: exact, also when it is written part by part while
// events go on.
#include "../lib/seed.h"
#include "../lib/unit.h"
#include "state_model.h"

#include <cutrace/model/checkpoint.h>

enum { MOST = 8192, SITES = 1024 };

static struct ct_event records[MOST];

struct side {
    struct memory memory;
    struct ct_live live;
    struct ct_readings readings;
};

static void side_begin(struct side *s) {
    memset(s, 0, sizeof *s);
    ct_live_init(&s->live, memory_resize, &s->memory);
}

static void side_end(struct side *s) {
    ct_live_release(&s->live);
    assert_int_equal(s->memory.bytes, 0);
}

static void side_apply(struct side *s, const struct ct_event *e, uint64_t number) {
    ct_live_apply(&s->live, e, number);
    ct_readings_apply(&s->readings, &s->live, e);
    s->readings.pending = 0; // each free has returned: a checkpoint does not have those under way
    // Nor does it have what would show that a measurement is no evidence, or which contexts there
    // are.
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_measured *m = &s->readings.device[d].measured;
        memset(m->recent, 0, sizeof m->recent);
        m->call_ns = m->newest_ns = m->contexts = 0;
    }
}

static void same_readings(const struct ct_readings *a, const struct ct_readings *b) {
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_device_usage *x = &a->device[d], *y = &b->device[d];
#define SAME(member) assert_int_equal(x->member, y->member)
        SAME(seen);
        SAME(last.known);
        SAME(last.free);
        SAME(last.total);
        SAME(last.used);
        SAME(last.tracked);
        SAME(last.t_ns);
        SAME(total);
        SAME(free_known);
        SAME(free_min);
        SAME(free_min_t_ns);
        SAME(process_known);
        SAME(process_untracked);
        if (x->process_known)
            SAME(split_unexplained);
        for (unsigned part = 0; part < CT_MEASURED_PARTS; part++) {
            SAME(measured.bytes[part]);
            SAME(measured.known[part]);
        }
        SAME(measured.instantiations);
        SAME(measured.unmeasured_instantiations);
#undef SAME
    }
}

static void same_objects(const struct side *a, const struct side *b) {
    same_totals(&a->live, &b->live);
    assert_memory_equal(a->live.of_kind, b->live.of_kind, sizeof a->live.of_kind);
    for (uint32_t i = 0; i < ct_live_slot_count(&a->live); i++) {
        const struct ct_object *o = ct_live_object_at(&a->live, i);
        if (!o)
            continue;
        const struct ct_object *p = ct_live_find(&b->live, o->kind, o->key);
        assert_non_null(p);
        assert_int_equal(o->bytes, p->bytes);
        assert_int_equal(o->t_ns, p->t_ns);
        assert_int_equal(o->stack, p->stack);
        assert_int_equal(o->device, p->device);
        assert_int_equal(ct_object_event(o), ct_object_event(p));
        assert_int_equal(o->segment, p->segment);
        assert_int_equal(o->holds_segment, p->holds_segment);
        const struct ct_traits *x = ct_live_traits(&a->live, o), *y = ct_live_traits(&b->live, p);
        assert_true(ct_traits_equal(x, y));
        if (ct_kind_has_own_traits(o->kind)) {
            assert_int_equal(x->refs, y->refs);
            assert_int_equal(x->maps, y->maps);
        }
    }
}

static void same_ranges(const struct ct_open_ranges *a, const struct ct_open_ranges *b) {
    assert_int_equal(a->used, b->used);
    for (uint32_t i = 0; i < a->used; i++)
        assert_memory_equal(&a->range[i], &b->range[i], sizeof a->range[i]);
}

static void same_state(const struct side *a, const struct side *b) {
    same_objects(a, b);
    same_ranges(&a->live.open, &b->live.open);
    same_readings(&a->readings, &b->readings);
}

// A mapping of a handle that is not there (its beginning was lost) is none of the handle's that may
// come later under the same number; while pieces are restored the reader cannot tell the two apart.
static int maps_nothing(const struct side *s, const struct ct_event *e) {
    return e->op == CT_OP_MAP && CT_HAS(e, handle) &&
           !ct_live_find(&s->live, CT_KIND_HANDLE, e->handle);
}

// The driver reserves no addresses where memory is still mapped.
static int reserves_mapped(const struct side *s, const struct ct_event *e) {
    return e->op == CT_OP_RESERVE && CT_HAS(e, ptr) &&
           ct_live_find(&s->live, CT_KIND_MAPPING, e->ptr);
}

// Applies `n` random events to both.
static uint64_t both(struct side *a, struct side *b, struct events *events, uint64_t number,
                     uint64_t n) {
    struct ct_event e;
    for (; n; n--, number++) {
        do
            random_event(events, &e);
        while (maps_nothing(a, &e) || reserves_mapped(a, &e));
        side_apply(a, &e, number);
        if (b)
            side_apply(b, &e, number);
    }
    return number;
}

static void restore(struct side *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        ct_checkpoint_apply(&to->live, &to->readings, &records[i]);
}

// Makes `to` what a checkpoint of `from` says, in one piece; with a table, what its sums say.
// Returns how many records it has.
static size_t copy_state(struct side *to, const struct side *from, struct ct_site_sum *table) {
    struct ct_checkpoint c;
    size_t all = 0;
    ct_checkpoint_begin_restore(&to->live, &to->readings);
    if (table)
        ct_checkpoint_begin_sums(&c, &from->live, table, SITES);
    else
        ct_checkpoint_begin(&c, &from->live);
    while (c.pass != CT_PASS_DONE) {
        const size_t n = ct_checkpoint_next(&c, &from->live, &from->readings, records, MOST);
        restore(to, n);
        all += n;
    }
    ct_checkpoint_end_restore(&to->live);
    return all;
}

// In one piece: the reader then has what a reader of everything has, and goes on alike.
TEST(one_piece_is_exact) {
    struct events events = {.seed = 99 + test_seed()};
    for (unsigned round = 0; round < 200; round++) {
        struct side all, late;
        events.keys = 10 + round;
        side_begin(&all);
        side_begin(&late);
        const uint64_t number = both(&all, NULL, &events, 0, random_below(&events.seed, 1500));
        both(&late, NULL, &events, 0, 50); // whatever was there is forgotten
        (void)copy_state(&late, &all, NULL);
        same_state(&all, &late);
        both(&all, &late, &events, number, 500);
        same_state(&all, &late);
        side_end(&all);
        side_end(&late);
    }
}

// In pieces of 5 records and more, with 0 to 60 events between two.
TEST(pieces_of_different_moments_are_exact) {
    struct events events = {.seed = 1234567 + test_seed()};
    unsigned pieces = 0;
    for (unsigned round = 0; round < test_rounds(250, 2000); round++) {
        struct side all, late;
        struct ct_checkpoint c;
        events.keys = 6 + (unsigned)random_below(&events.seed, round % 5 ? 30 : 300);
        side_begin(&all);
        side_begin(&late);
        uint64_t number = both(&all, NULL, &events, 0, random_below(&events.seed, 800));
        ct_checkpoint_begin_restore(&late.live, &late.readings);
        ct_checkpoint_begin(&c, &all.live);
        for (; c.pass != CT_PASS_DONE; pieces++) {
            const size_t most = CT_DEVICE_RECORDS + random_below(&events.seed, 20);
            restore(&late, ct_checkpoint_next(&c, &all.live, &all.readings, records, most));
            if (c.pass != CT_PASS_DONE)
                number = both(&all, &late, &events, number, random_below(&events.seed, 60));
        }
        ct_checkpoint_end_restore(&late.live);
        same_state(&all, &late);
        both(&all, &late, &events, number, 300);
        same_state(&all, &late);
        assert_int_equal(late.live.overflow, 0);
        assert_true(late.live.replaced <= all.live.replaced);
        assert_true(late.live.unknown_frees <= all.live.unknown_frees);
        side_end(&all);
        side_end(&late);
    }
    assert_true(pieces > 2 * test_rounds(250, 2000));
}

// ---- give-backs that fail -------------------------------------------------------------------
// The recorder learns only after the call that it failed, and records an AMEND. The reader has all
// AMENDs before it replays the call.

enum { CALLERS = 3, ASIDES = 4, FAILED_MOST = 4096 };

struct calls {
    struct ct_event amend[CALLERS]; // what the thread will say when it comes from its call
    uint64_t key[CALLERS];
    unsigned left[CALLERS]; // events until then; 0: it is in no call
    struct {
        uint64_t t_ns;
        uint32_t thread;
    } failed[FAILED_MOST];
    unsigned n;
};

static int gives_one(const struct ct_event *e) {
    return e->op == CT_OP_FREE || e->op == CT_OP_UNRESERVE || e->op == CT_OP_UNREGISTER;
}

static uint32_t caller_of(const struct ct_event *e) {
    return CT_HAS(e, thread) ? e->thread : 0;
}

// What cannot be: a call of a thread that is in another one; something new where something still
// lies.
static int cannot_be(const struct calls *c, const struct ct_event *e) {
    int is_there = 0;
    for (unsigned i = 0; i < CALLERS; i++)
        is_there |= c->left[i] && (c->key[i] == e->ptr || c->key[i] == e->handle);
    return c->left[caller_of(e)] || e->op == CT_OP_AMEND || e->op == CT_OP_MAP ||
           e->op == CT_OP_GRAPH_ALLOC || (is_there && !gives_one(e));
}

static void come_back(struct calls *c, struct side *all, int now) {
    for (unsigned i = 0; i < CALLERS; i++)
        if (c->left[i] && (now || !--c->left[i])) {
            c->left[i] = 0;
            side_apply(all, &c->amend[i], 0);
        }
}

// Applies `n` random events to both, some of them give-backs that fail.
static uint64_t both_failing(struct side *a, struct side *b, struct events *events, struct calls *c,
                             uint64_t number, uint64_t n) {
    struct ct_event e;
    for (; n; n--, number++) {
        for (random_event(events, &e); cannot_be(c, &e); random_event(events, &e))
            come_back(c, a, 0);
        e.t_ns = ++events->t_ns;
        const uint32_t thread = caller_of(&e);
        const int fails = gives_one(&e) && !(CT_HAS(&e, result) && e.result) &&
                          c->n < FAILED_MOST && random_below(&events->seed, 3) == 0;
        if (gives_one(&e) && !CT_HAS(&e, result))
            CT_SET(&e, result, 0);
        side_apply(a, &e, number);
        if (fails) {
            struct ct_event *amend = &c->amend[thread];
            memset(amend, 0, sizeof *amend);
            CT_SET(amend, op, CT_OP_AMEND);
            CT_SET(amend, thread, thread);
            CT_SET(amend, amends_ns, e.t_ns);
            CT_SET(amend, result, 1);
            c->key[thread] = e.op == CT_OP_FREE && e.handle ? e.handle : e.ptr;
            c->left[thread] = 1 + (unsigned)random_below(&events->seed, 40);
            c->failed[c->n].t_ns = e.t_ns;
            c->failed[c->n++].thread = thread;
            CT_SET(&e, result, 1);
        }
        if (b)
            side_apply(b, &e, number);
        come_back(c, a, 0);
    }
    return number;
}

static void restore_knowing(struct side *to, size_t n, const struct calls *c) {
    for (size_t i = 0; i < n; i++)
        for (unsigned f = 0; CT_HAS(&records[i], amends_ns) && f < c->n; f++)
            if (c->failed[f].t_ns == records[i].amends_ns &&
                c->failed[f].thread == caller_of(&records[i]))
                CT_SET(&records[i], result, 1);
    restore(to, n);
}

TEST(a_failure_told_later_is_no_loss) {
    static struct calls calls;
    struct events events = {.seed = 31337 + test_seed()};
    unsigned aside = 0;
    for (unsigned round = 0; round < test_rounds(250, 2000); round++) {
        struct ct_tentative table[ASIDES] = {{0}};
        struct side all, late;
        struct ct_checkpoint c;
        events.keys = 6 + (unsigned)random_below(&events.seed, round % 5 ? 30 : 300);
        memset(&calls, 0, sizeof calls);
        side_begin(&all);
        all.live.tentative = table;
        all.live.tentative_room = ASIDES;
        side_begin(&late);
        uint64_t number =
            both_failing(&all, NULL, &events, &calls, 0, random_below(&events.seed, 600));
        ct_checkpoint_begin_restore(&late.live, &late.readings);
        ct_checkpoint_begin(&c, &all.live);
        while (c.pass != CT_PASS_DONE) {
            const size_t most = CT_DEVICE_RECORDS + random_below(&events.seed, 20);
            const size_t records_n =
                ct_checkpoint_next(&c, &all.live, &all.readings, records, most);
            for (size_t i = 0; i < records_n; i++)
                aside += CT_HAS(&records[i], amends_ns);
            restore_knowing(&late, records_n, &calls);
            if (c.pass != CT_PASS_DONE)
                number = both_failing(&all, &late, &events, &calls, number,
                                      random_below(&events.seed, 60));
        }
        ct_checkpoint_end_restore(&late.live);
        both_failing(&all, &late, &events, &calls, number, 300);
        come_back(&calls, &all, 1);
        // (What was tracked when a reading was taken is told as it was believed then: it is of
        // interest until the next one.)
        same_objects(&all, &late);
        side_end(&all);
        side_end(&late);
    }
    print_message("# %u calls of which it was not known whether they failed\n", aside);
    assert_true(aside > test_rounds(250, 2000) / 8);
}

// Pieces are bounded in what they look at, so that a large empty state does not hold up the writer.
TEST(pieces_are_bounded) {
    struct side all;
    struct ct_checkpoint c;
    struct ct_event e = {.present = 0};
    unsigned pieces = 0;
    side_begin(&all);
    for (uint64_t n = 1; n <= 100000; n++) {
        CT_SET(&e, op, CT_OP_ALLOC);
        CT_SET(&e, t_ns, n);
        CT_SET(&e, ptr, n * 512);
        side_apply(&all, &e, n);
    }
    for (uint64_t n = 2; n <= 100000; n++) {
        CT_SET(&e, op, CT_OP_FREE);
        CT_SET(&e, ptr, n * 512);
        side_apply(&all, &e, n);
    }
    ct_checkpoint_begin(&c, &all.live);
    for (size_t n = 0; c.pass != CT_PASS_DONE; pieces++) {
        n += ct_checkpoint_next(&c, &all.live, &all.readings, records, 100);
        assert_true(n <= 1);
    }
    assert_true(pieces > 15);
    side_end(&all);
}

// ---- totals by call site --------------------------------------------------------------------

// A random state, and what a checkpoint of its sums restores, of so many records. Every other time
// there are stacks that a table of this size cannot hold one by one.
static size_t begin_summed(struct side *all, struct side *late, struct events *events,
                           unsigned round) {
    static struct ct_site_sum table[SITES];
    events->keys = 10 + round * 3;
    side_begin(all);
    side_begin(late);
    both(all, NULL, events, 0, 3000);
    for (uint32_t i = 0; i < ct_live_slot_count(&all->live) && round % 2; i++)
        if (ct_live_object_at(&all->live, i))
            ct_live_object_at(&all->live, i)->stack = i;
    assert_int_equal(ct_checkpoint_sum_sites(&all->live, table, SITES), 0);
    return copy_state(late, all, table);
}

TEST(totals_keep_what_devices_hold) {
    struct events events = {.seed = 4711 + test_seed()};
    for (unsigned round = 0; round < 200; round++) {
        struct side all, late;
        const size_t n = begin_summed(&all, &late, &events, round);
        for (int d = 0; d < CT_DEVICES;
             d++) // blocks and reservations are no memory of their own: sums know nothing of them
            all.live.device[d].blocks = all.live.device[d].block_bytes =
                all.live.device[d].asleep_segment_bytes = 0;
        same_totals(&all.live, &late.live);
        same_readings(&all.readings, &late.readings);
        assert_true(n <= SITES + 5 + CT_DEVICES * CT_DEVICE_RECORDS);
        // And they are totals by call site.
        for (uint32_t stack = 0; stack < 9 && !(round % 2); stack++) {
            uint64_t want = 0, got = 0;
            for (uint32_t i = 0; i < ct_live_slot_count(&all.live); i++) {
                const struct ct_object *o = ct_live_object_at(&all.live, i);
                want += o && o->stack == stack && ct_object_is_counted(&all.live, o) ? o->bytes : 0;
            }
            for (uint32_t i = 0; i < ct_live_slot_count(&late.live); i++) {
                const struct ct_object *o = ct_live_object_at(&late.live, i);
                got += o && o->stack == stack && ct_object_is_counted(&late.live, o) ? o->bytes : 0;
            }
            assert_int_equal(want, got);
        }
        // A checkpoint of such a state holds the totals, too.
        struct side later;
        side_begin(&later);
        (void)copy_state(&later, &late, NULL);
        assert_int_equal(later.live.device[0].live_bytes, late.live.device[0].live_bytes);
        assert_int_equal(later.live.device[0].live_allocations,
                         late.live.device[0].live_allocations);
        assert_int_equal(later.live.host_bytes, late.live.host_bytes);
        side_end(&later);
        side_end(&all);
        side_end(&late);
    }
}

// What gives back something that is known as a sum only tells its size and call site: then the sums
// stay right.
TEST(sums_go_down_with_what_tells_its_size) {
    struct events events = {.seed = 815 + test_seed()};
    for (unsigned round = 0; round < 100; round++) {
        struct side all, late;
        uint64_t number = 3000;
        (void)begin_summed(&all, &late, &events, round);
        for (uint32_t i = 0; i < ct_live_slot_count(&all.live); i++) {
            const struct ct_object *o = ct_live_object_at(&all.live, i);
            struct ct_event e = {.present = 0};
            if (!o || (o->kind != CT_KIND_ADDRESS && o->kind != CT_KIND_ARRAY))
                continue;
            CT_SET(&e, op, CT_OP_FREE);
            if (o->kind == CT_KIND_ADDRESS)
                CT_SET(&e, ptr, o->key);
            else
                CT_SET(&e, handle, o->key);
            side_apply(&late, &e, number); // without a size it is unknown, and changes nothing
            ct_site_sum_describe(&all.live, o, &e);
            if (ct_object_is_counted(&all.live, o) || ct_object_is_host(&all.live, o))
                side_apply(&late, &e, number);
            side_apply(&all, &e, number++);
            for (int d = 0; d < CT_DEVICES; d++) // (pools also by what does not count: FOREIGN)
                assert_memory_equal(&all.live.device[d], &late.live.device[d],
                                    offsetof(struct ct_live_device, pool_bytes));
            assert_int_equal(all.live.host_bytes, late.live.host_bytes);
        }
        side_end(&all);
        side_end(&late);
    }
}

// Whatever records say: no crash, no memory that is not given back.
TEST(random_records_do_no_harm) {
    struct events events = {.seed = 5 + test_seed(), .keys = 40};
    struct side s;
    struct ct_event e;
    side_begin(&s);
    for (unsigned i = 0; i < 100000; i++) {
        random_event(&events, &e);
        if (random_below(&events.seed, 2))
            CT_SET(&e, refs, (uint32_t)random_next(&events.seed));
        if (i % 5000 == 0)
            ct_checkpoint_begin_restore(&s.live, &s.readings);
        if (random_below(&events.seed, 3))
            ct_checkpoint_apply(&s.live, &s.readings, &e);
        else
            side_apply(&s, &e, i);
    }
    ct_checkpoint_begin_restore(&s.live, &s.readings);
    for (unsigned kind = 0; kind < CT_KINDS_END; kind++)
        assert_int_equal(s.live.of_kind[kind], 0);
    for (int d = 0; d < CT_DEVICES; d++)
        assert_int_equal(s.live.device[d].live_bytes, 0);
    side_end(&s);
}
