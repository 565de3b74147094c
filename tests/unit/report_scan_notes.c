// SPDX-License-Identifier: Apache-2.0
// What views note of a trace that is read in parts: parts of a random sequence of events, cut at
// random places and appended, against the same sequence noted as a whole.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../lib/seed.h"
#include "analyze/program_marks.h"
#include "base/heap.h"
#include "print/summary_notes.h"

#define MIB (UINT64_C(1) << 20)
#define MS UINT64_C(1000000)
#define START_NS (UINT64_C(1000) * MS)

enum { DEVICES = 2, BLOCKS = 8, MOST_PARTS = 4 };

static uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (*seed >> 33) % below;
}

// ---- events -------------------------------------------------------------------------------------

// How a sequence is drawn. Each kind of event has its share.
struct mix {
    unsigned calls, frees, others, readings, processes, answers;
    uint64_t small; // of 10 steps of time, so many are of microseconds
    int equal_times;
    uint64_t back; // of so many steps of time, one goes back
    uint32_t pids;
    uint64_t free_bytes; // of readings: drawn below it
};

static const struct mix usual = {.calls = 3,
                                 .frees = 3,
                                 .others = 3,
                                 .readings = 4,
                                 .processes = 2,
                                 .answers = 1,
                                 .small = 5,
                                 .pids = 3,
                                 .free_bytes = 4096 * MIB};

struct source {
    uint64_t seed, t_ns, number;
    uint64_t live[DEVICES][BLOCKS]; // bytes
    const struct mix *mix;
    const struct ct_trace *trace;
    struct ct_replay replay;
    struct ct_event e;
};

static void begin_source(struct source *s, const struct mix *mix, uint64_t seed) {
    static struct ct_trace none;
    *s = (struct source){
        .seed = (seed + test_seed()) * 7919, .t_ns = START_NS, .mix = mix, .trace = &none};
    ct_replay_init(&s->replay, NULL, NULL);
}

static void step_time(struct source *s) {
    static const uint64_t steps[] = {2 * MS, 4 * MS, 6 * MS, 15 * MS, 19 * MS, 21 * MS, 40 * MS};
    if (s->mix->equal_times && draw(&s->seed, 3))
        return;
    if (s->mix->back && !draw(&s->seed, s->mix->back))
        s->t_ns -= draw(&s->seed, 30 * MS);
    else if (draw(&s->seed, 10) < s->mix->small)
        s->t_ns += draw(&s->seed, 3000);
    else
        s->t_ns += steps[draw(&s->seed, sizeof steps / sizeof *steps)];
}

static void make_allocation(struct source *s, int device) {
    static const uint64_t sizes[] = {2 * MIB, 20 * MIB, 34 * MIB, 40 * MIB, 200 * MIB};
    const uint64_t i = draw(&s->seed, BLOCKS);
    s->e.op = s->live[device][i] ? CT_OP_FREE : CT_OP_ALLOC;
    CT_SET(&s->e, ptr, ((uint64_t)device + 1) << 40 | i << 32);
    CT_SET(&s->e, duration_ns, draw(&s->seed, 2) ? draw(&s->seed, 30 * MS) : 100);
    if (s->e.op == CT_OP_ALLOC) {
        s->live[device][i] = sizes[draw(&s->seed, sizeof sizes / sizeof *sizes)];
        CT_SET(&s->e, bytes, s->live[device][i]);
        CT_SET(&s->e, space, CT_SPACE_DEVICE);
    } else {
        s->live[device][i] = 0;
        if (!draw(&s->seed, 4)) // the device is that of the block
            s->e.present &= ~CT_BIT(device);
    }
}

// Most often it is this process, with what it has allocated.
static void make_process(struct source *s, int device) {
    s->e.op = draw(&s->seed, 6) ? CT_OP_PROCESS : CT_OP_PROCESS_GONE;
    CT_SET(&s->e, flags, CT_FLAG_NVML);
    CT_SET(&s->e, pid, (uint32_t)draw(&s->seed, s->mix->pids));
    if (s->e.op == CT_OP_PROCESS && draw(&s->seed, 10))
        CT_SET(&s->e, process_bytes,
               draw(&s->seed, 3) ? 500 * MIB + ct_live_tracked(&s->replay.live.device[device])
                                 : draw(&s->seed, 8) * 50 * MIB);
    if (!draw(&s->seed, 3))
        CT_SET(&s->e, text, (uint32_t)draw(&s->seed, 5));
}

static void make_reading(struct source *s, int by_nvml) {
    s->e.op = CT_OP_MEMORY_SAMPLE;
    if (by_nvml)
        CT_SET(&s->e, flags, CT_FLAG_NVML);
    CT_SET(&s->e, free_bytes, draw(&s->seed, s->mix->free_bytes));
    CT_SET(&s->e, total_bytes, 8192 * MIB);
    if (by_nvml && draw(&s->seed, 2))
        CT_SET(&s->e, process_bytes, draw(&s->seed, 2048 * MIB));
}

// Draws the next event, and applies it.
static void next(struct source *s) {
    const struct mix *m = s->mix;
    const int device = (int)draw(&s->seed, DEVICES);
    uint64_t at =
        draw(&s->seed, m->calls + m->frees + m->others + m->readings + m->processes + m->answers);
    step_time(s);
    s->e = (struct ct_event){.present = 0};
    CT_SET(&s->e, t_ns, s->t_ns);
    CT_SET(&s->e, device, device);
    if (at < m->calls + m->frees) {
        make_allocation(s, device);
    } else if ((at -= m->calls + m->frees) < m->others) {
        if (draw(&s->seed, 2))
            make_reading(s, 0);
        else
            s->e.op = CT_OP_MARK;
    } else if ((at -= m->others) < m->readings) {
        make_reading(s, 1);
    } else if ((at -= m->readings) < m->processes) {
        make_process(s, device);
    } else {
        s->e.op = CT_OP_MARK;
        CT_SET(&s->e, flags, CT_FLAG_NVML);
    }
    ct_replay_apply(&s->replay, &s->e, s->number++);
}

// ---- notes, and whether they are the same -------------------------------------------------------

static void are_same_points(const struct ct_untracked_points *a,
                            const struct ct_untracked_points *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->spacing_ns, b->spacing_ns);
    assert_int_equal(a->last_ns, b->last_ns);
    assert_int_equal(a->is_thinned, b->is_thinned);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->list[i].t_ns, b->list[i].t_ns);
        assert_int_equal(a->list[i].bytes, b->list[i].bytes);
        assert_int_equal(a->list[i].measured_known, b->list[i].measured_known);
        assert_memory_equal(a->list[i].measured, b->list[i].measured, sizeof a->list[i].measured);
    }
}

static void are_same_neighbours(const struct ct_neighbours *a, const struct ct_neighbours *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->left_out, b->left_out);
    for (size_t i = 0; i < a->count; i++) {
        const struct ct_neighbour *p = &a->list[i], *q = &b->list[i];
        assert_int_equal(p->device, q->device);
        assert_int_equal(p->pid, q->pid);
        assert_int_equal(p->name, q->name);
        assert_int_equal(p->is_thinned, q->is_thinned);
        assert_memory_equal(&p->match, &q->match, sizeof p->match);
        assert_int_equal(p->count, q->count);
        assert_memory_equal(p->points, q->points, p->count * sizeof *p->points);
    }
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_neighbour_device *p = &a->device[d], *q = &b->device[d];
        assert_int_equal(p->has_list, q->has_list);
        assert_int_equal(p->nvml_ns, q->nvml_ns);
        assert_int_equal(p->before_ns, q->before_ns);
        assert_int_equal(p->tick.is_open, q->tick.is_open);
        assert_int_equal(p->tick.t_ns, q->tick.t_ns);
        assert_int_equal(p->tick.tracked, q->tick.tracked);
        assert_int_equal(p->tick.changed_ns, q->tick.changed_ns);
    }
}

static void are_same(const struct ct_summary_notes *a, const struct ct_summary_notes *b) {
    for (int d = 0; d < CT_DEVICES; d++) {
        are_same_points(&a->untracked[d].own, &b->untracked[d].own);
        are_same_points(&a->untracked[d].all, &b->untracked[d].all);
    }
    are_same_neighbours(&a->neighbours, &b->neighbours);
}

// What a sequence has shown, so that it is known what was compared.
struct shown {
    uint64_t joined, refused, points, matched, missed, thinned;
};

static void look(struct shown *to, const struct ct_summary_notes *n) {
    for (size_t i = 0; i < n->neighbours.count; i++) {
        to->matched += n->neighbours.list[i].match.matched;
        to->missed += n->neighbours.list[i].match.missed;
        to->thinned += n->neighbours.list[i].is_thinned;
    }
    for (int d = 0; d < CT_DEVICES; d++) {
        to->points += n->untracked[d].all.count;
        to->thinned += n->untracked[d].all.is_thinned;
    }
}

// ---- a sequence ---------------------------------------------------------------------------------

struct pass {
    struct ct_scan_request whole, first;
    struct ct_summary_notes of_whole, of_first;
    void *part[MOST_PARTS]; // the first one is that of `first`
    size_t cut[MOST_PARTS]; // where a part begins
    size_t parts;
};

static int compare(const void *a, const void *b) {
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static void begin_pass(struct pass *p, struct source *s, size_t events) {
    *p = (struct pass){.parts = 2 + draw(&s->seed, MOST_PARTS - 1)};
    for (size_t i = 1; i < p->parts; i++)
        p->cut[i] = draw(&s->seed, events + 1);
    qsort(p->cut, p->parts, sizeof *p->cut, compare);
    ct_summary_notes_begin(&p->of_whole, s->trace, NULL);
    ct_summary_notes_begin(&p->of_first, s->trace, NULL);
    ct_summary_notes_request(&p->of_whole, &p->whole);
    ct_summary_notes_request(&p->of_first, &p->first);
    p->part[0] = &p->of_first;
    for (size_t i = 1; i < p->parts; i++)
        p->part[i] = p->first.division->begin(&p->of_first);
}

// The replay of a part has gaps of its own, by the checkpoint that it begins with.
static void note(struct pass *p, struct source *s, size_t at) {
    size_t part = 0;
    while (part + 1 < p->parts && p->cut[part + 1] <= at)
        part++;
    p->whole.applied(p->whole.applied_user, &s->replay, &s->e, s->number);
    s->replay.gaps += 3 * part;
    p->first.applied(p->part[part], &s->replay, &s->e, s->number);
    s->replay.gaps -= 3 * part;
}

static int append(struct pass *p) {
    for (size_t i = 1; i < p->parts; i++)
        if (!p->first.division->append(p->first.applied_user, p->part[i]))
            return 0;
    return 1;
}

static void end_pass(struct pass *p) {
    for (size_t i = 1; i < p->parts; i++)
        p->first.division->free(p->part[i]);
    ct_summary_notes_free(&p->of_whole);
    ct_summary_notes_free(&p->of_first);
}

// Returns whether the parts could be joined. `gap`: before this event; no part begins with it.
static int run(const struct mix *mix, uint64_t seed, size_t events, size_t gap,
               struct shown *shown) {
    struct source s;
    struct pass p;
    begin_source(&s, mix, seed);
    begin_pass(&p, &s, events);
    for (size_t i = 1; i < p.parts; i++)
        p.cut[i] += p.cut[i] == gap;
    for (size_t i = 0; i < events; i++) {
        s.replay.gaps += i == gap;
        next(&s);
        note(&p, &s, i);
    }
    const int is_joined = append(&p);
    if (is_joined)
        are_same(&p.of_first, &p.of_whole);
    shown->joined += (uint64_t)is_joined;
    shown->refused += !is_joined;
    look(shown, &p.of_whole);
    end_pass(&p);
    ct_replay_free(&s.replay);
    return is_joined;
}

// ---- tests --------------------------------------------------------------------------------------

enum { NO_GAP = -1 };

// Short ones, so that a part often begins in an answer of NVML's, or ends before the first one.
static void parts_give_what_the_whole_gives(void **state) {
    static const size_t lengths[] = {6, 20, 60, 300};
    struct shown shown = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 12000; seed++)
        assert_true(run(&usual, seed, lengths[seed % 4], (size_t)NO_GAP, &shown));
    assert_true(shown.matched > 1000 && shown.missed > 1000 && shown.points > 100000);
}

static void parts_with_few_or_many_calls_do_too(void **state) {
    struct mix busy = usual, calm = usual, even = usual;
    struct shown shown = {0};
    (void)state;
    busy.calls = 40;
    busy.small = 9;
    calm.calls = calm.frees = calm.others = calm.answers = calm.processes = 1;
    calm.readings = 20;
    even.equal_times = 1;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        assert_true(run(&busy, seed, 200, (size_t)NO_GAP, &shown));
        assert_true(run(&calm, seed, 200, (size_t)NO_GAP, &shown));
        assert_true(run(&even, seed, 100, (size_t)NO_GAP, &shown));
    }
}

// Points are joined, and processes left out, as in the whole.
static void parts_are_bounded_as_the_whole_is(void **state) {
    struct mix many_readings = usual, no_time = usual, many_lists = usual, many_pids = usual;
    struct shown shown = {0};
    (void)state;
    many_readings.readings = 60;
    no_time.readings = 60;
    no_time.equal_times = 1;
    no_time.small = 10;
    many_lists.processes = 200;
    many_pids.processes = 60;
    many_pids.pids = 400;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        assert_true(run(&many_readings, seed, 40000, (size_t)NO_GAP, &shown));
        assert_true(run(&no_time, seed, 40000, (size_t)NO_GAP, &shown));
        assert_true(run(&many_pids, seed, 3000, (size_t)NO_GAP, &shown));
    }
    assert_true(shown.thinned >= 12 * DEVICES);
    shown = (struct shown){0};
    many_lists.pids = 1;
    for (uint64_t seed = 1; seed <= 3; seed++)
        assert_true(run(&many_lists, seed, 60000, (size_t)NO_GAP, &shown));
    assert_true(shown.thinned >= 3 * DEVICES);
}

// What cannot be joined is refused, and what is joined all the same is right.
static void what_is_not_certain_is_refused(void **state) {
    struct mix back = usual, seldom = usual;
    struct shown shown = {0};
    (void)state;
    back.back = 5;
    seldom.back = 40;
    seldom.readings = 20;
    for (uint64_t seed = 1; seed <= 6000; seed++) {
        (void)run(&back, seed, 6 + seed % 20, (size_t)NO_GAP, &shown);
        (void)run(&seldom, seed, 40, (size_t)NO_GAP, &shown);
    }
    assert_true(shown.joined > 100 && shown.refused > 100);
    shown = (struct shown){0};
    for (uint64_t seed = 1; seed <= 3000; seed++)
        (void)run(&usual, seed, 30, seed % 30, &shown);
    assert_true(shown.joined > 100 && shown.refused > 100);
}

// Notes of one part behind events that are noted as a whole; the events of the part are readings,
// `step_ns` apart and each behind `calls` of a device.
static int append_readings(size_t readings, size_t calls, int is_nvml, uint64_t step_ns) {
    struct source s;
    struct pass p;
    begin_source(&s, &usual, 1);
    begin_pass(&p, &s, 0);
    for (size_t i = 0; i < readings * (calls + 1); i++) {
        s.t_ns += step_ns;
        s.e = (struct ct_event){.present = 0};
        CT_SET(&s.e, t_ns, s.t_ns);
        CT_SET(&s.e, device, 0);
        if (i % (calls + 1))
            make_allocation(&s, 0);
        else
            make_reading(&s, is_nvml);
        ct_replay_apply(&s.replay, &s.e, s.number++);
        note(&p, &s, i);
    }
    const int is_joined = append(&p);
    if (is_joined)
        are_same(&p.of_first, &p.of_whole);
    end_pass(&p);
    ct_replay_free(&s.replay);
    return is_joined;
}

static void a_part_has_so_many_readings(void **state) {
    (void)state;
    assert_true(append_readings(CT_UNTRACKED_PART_POINTS, 0, 1, 10 * MS));
    assert_false(append_readings(CT_UNTRACKED_PART_POINTS + 1, 0, 1, 10 * MS));
    assert_false(append_readings(CT_UNTRACKED_PART_POINTS + 1, 0, 0, 10 * MS));
    assert_false(append_readings(CT_UNTRACKED_PART_POINTS + 1, 0, 0, 0));
    assert_true(append_readings(10000, 5, 1, 10 * MS));
    assert_false(append_readings(30000, 5, 1, 10 * MS)); // (what lies between them is kept, too)
}

// The first notes can begin again: with the coarse history, and without anything else.
static void notes_begin_again(void **state) {
    static struct ct_history history;
    struct ct_trace trace = {.history = &history, .overwritten_events = 1};
    struct source s;
    struct pass p;
    (void)state;
    ct_history_begin(&history, START_NS - 100 * MS);
    for (uint32_t i = 0; i < 2; i++) {
        struct ct_history_cell *c = &history.cell[history.cells++];
        c->bucket = i;
        c->known = 1u << CT_QUANTITY_USED | 1u << CT_QUANTITY_TRACKED | 1u << CT_QUANTITY_UNTRACKED;
        c->curve[CT_QUANTITY_USED].last = 100 * MIB;
        c->curve[CT_QUANTITY_TRACKED].last = 30 * MIB;
    }
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin_source(&s, &usual, seed);
        s.trace = &trace;
        begin_pass(&p, &s, 50);
        assert_int_equal(p.of_first.untracked[0].all.count, 2);
        for (size_t i = 0; i < 50; i++) {
            next(&s);
            note(&p, &s, i);
        }
        if (seed % 2) {
            p.first.division->begin_again(p.first.applied_user);
            ct_summary_notes_free(&p.of_whole);
            ct_summary_notes_begin(&p.of_whole, &trace, NULL);
        } else {
            assert_true(append(&p));
        }
        are_same(&p.of_first, &p.of_whole);
        end_pass(&p);
        ct_replay_free(&s.replay);
    }
}

// ---- marks --------------------------------------------------------------------------------------

static struct ct_event make_mark(uint64_t *seed, uint64_t t_ns) {
    struct ct_event e = {.op = draw(seed, 8) ? CT_OP_MARK : CT_OP_ALLOC};
    CT_SET(&e, t_ns, t_ns);
    CT_SET(&e, text, (uint32_t)draw(seed, 4));
    CT_SET(&e, thread, (uint32_t)draw(seed, 5));
    if (draw(seed, 2))
        CT_SET(&e, domain, (uint32_t)draw(seed, 4));
    return e;
}

static void are_same_marks(const struct ct_program_marks *a, const struct ct_program_marks *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->from_ns, b->from_ns);
    assert_int_equal(a->to_ns, b->to_ns);
    for (unsigned i = 0; i < CT_PROGRAM_MARKS; i++) {
        const struct ct_program_mark *p = &a->part[i], *q = &b->part[i];
        assert_int_equal(p->count, q->count);
        assert_int_equal(p->t_ns, q->t_ns);
        assert_int_equal(p->event, q->event);
        assert_int_equal(p->text, q->text);
        assert_int_equal(p->domain, q->domain);
        assert_int_equal(p->thread, q->thread);
    }
}

static void marks_of_parts_are_those_of_the_whole(void **state) {
    struct ct_string strings[] = {{"", 0}, {"epoch", 5}, {"aten::add", 9}, {"step", 4}};
    const struct ct_definitions names = {.strings = strings, .string_count = 4};
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct ct_program_marks whole, part[MOST_PARTS];
        uint64_t draws = seed * 7919, t = 50;
        size_t at = 0;
        ct_program_marks_init(&whole, &names, 100, 2000);
        for (size_t i = 0; i < MOST_PARTS; i++)
            ct_program_marks_init(&part[i], &names, 100, 2000);
        for (uint64_t number = 0; number < 300; number++) {
            const struct ct_event e = make_mark(&draws, t += draw(&draws, 16));
            at += at + 1 < MOST_PARTS && !draw(&draws, 70);
            ct_program_marks_note(&whole, &e, number);
            ct_program_marks_note(&part[at], &e, number);
        }
        for (size_t i = 1; i < MOST_PARTS; i++)
            ct_program_marks_append(&part[0], &part[i]);
        assert_true(whole.count > 50);
        are_same_marks(&part[0], &whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_give_what_the_whole_gives),
        cmocka_unit_test(parts_with_few_or_many_calls_do_too),
        cmocka_unit_test(parts_are_bounded_as_the_whole_is),
        cmocka_unit_test(what_is_not_certain_is_refused),
        cmocka_unit_test(a_part_has_so_many_readings),
        cmocka_unit_test(notes_begin_again),
        cmocka_unit_test(marks_of_parts_are_those_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
