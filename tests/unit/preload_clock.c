// SPDX-License-Identifier: Apache-2.0
// The clock never goes backwards and stays near CLOCK_MONOTONIC, with this machine's counter and
// with a simulated one that behaves as counters do when a machine sleeps, moves or is adjusted.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../lib/seed.h"
#include "../lib/unit.h"

// ---- a world of its own: the same source again, under other names -----------------------------

#define CT_CLOCK_SIMULATED
#define ct_clock_read sim_clock
#define ct_clock_calibrate sim_calibrate
#define ct_clock_reinit_child sim_forked
#define ct_clock_get_source sim_source

static uint64_t BASE_LINE_NS, EVERY_NS, BEND_NS, CORRECTION_NS;
#ifdef __SANITIZE_THREAD__
#define AHEAD_NS 20000u // a pair takes microseconds there
#else
#define AHEAD_NS 500u
#endif
#define ERROR_NS 1000000

static int useful;
static _Atomic uint64_t true_ns; // advanced by each look; or real time, if `live`
static int live;
// Both are functions of true time: counter = ticks_at + speed * t, clock = t + error(t).
static double speed, wave_ns, wave_period_ns;
static _Atomic int64_t ticks_at, clock_at;

static uint64_t real_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t true_time(void) {
    return live ? real_ns() : atomic_fetch_add(&true_ns, 10);
}

static void (*meanwhile)(void);  // happens once, before the counter is read
static __thread uint64_t looked; // the true time of the thread's last look at the counter

static uint64_t counter(void) {
    void (*what)(void) = meanwhile;
    if (what) {
        meanwhile = NULL;
        what();
    }
    looked = true_time();
    return (uint64_t)((int64_t)((double)looked * speed) + atomic_load(&ticks_at));
}

// The clock with a triangular error: it is slewed up and down.
static uint64_t monotonic(void) {
    const uint64_t t = true_time();
    const double phase = (double)(t % (uint64_t)wave_period_ns) / wave_period_ns;
    return t + (uint64_t)(wave_ns * (phase < 0.5 ? phase : 1 - phase)) +
           (uint64_t)atomic_load(&clock_at);
}

static int counter_is_a_clock(void) {
    return useful;
}

#include "../../preload/base/clock.c"

#undef ct_clock_read
#undef ct_clock_calibrate
#undef ct_clock_reinit_child
#undef ct_clock_get_source
#undef CT_BASE_CLOCK_H
#include "../../preload/base/clock.h"

static void fresh_world(void) {
    memset(&now, 0, sizeof now);
    memset(&calibration, 0, sizeof calibration);
    BASE_LINE_NS = 20000000, EVERY_NS = 1000000000, BEND_NS = 10000000, CORRECTION_NS = 250000000;
    useful = 1, live = 0, speed = 2.6, wave_ns = 0, wave_period_ns = 1e9;
    atomic_store(&true_ns, 1000000000000);
    atomic_store(&ticks_at, 12345);
    atomic_store(&clock_at, 0);
}

BEFORE_EACH {
    fresh_world();
    return 0;
}

static uint64_t newest;
static double worst_ns;

// Goes on for ns in steps, looking at the clock and calibrating as the writer does. Nothing may go
// backwards.
static void go_on(uint64_t ns, uint64_t step, int writing) {
    for (uint64_t end = atomic_load(&true_ns) + ns; atomic_load(&true_ns) < end;) {
        atomic_fetch_add(&true_ns, step);
        const uint64_t t = sim_clock();
        assert_true(t >= newest);
        newest = t;
        const double error = (double)(int64_t)(t - monotonic());
        worst_ns = error > worst_ns ? error : -error > worst_ns ? -error : worst_ns;
        if (writing)
            sim_calibrate();
    }
}

static void begin(void) {
    newest = 0;
    worst_ns = 0;
    go_on(5000000, 1000000, 1);
    assert_string_equal(sim_source(), "clock");
    go_on(50000000, 1000000, 1);
    assert_string_equal(sim_source(), "tsc");
}

TEST(switches_over) {
    begin();
    go_on(10000000000, 1000000, 1);
    assert_string_equal(sim_source(), "tsc");
    assert_true(worst_ns < AHEAD_NS + 1500);
    worst_ns = 0;
    go_on(5000000000, 1000000, 1);
    assert_true(worst_ns < 100);
}

TEST(only_with_a_good_counter) {
    useful = 0;
    newest = 0;
    go_on(2000000000, 1000000, 1);
    assert_string_equal(sim_source(), "clock");
    sim_forked();
}

TEST(follows_an_adjusted_clock) {
    begin();
    wave_ns = 5e6; // 500 ppm, up and down
    wave_period_ns = 20e9;
    worst_ns = 0;
    go_on(60000000000, 1000000, 1);
    assert_string_equal(sim_source(), "tsc");
    assert_true(worst_ns < 3e6);
    wave_ns = 0;
}

TEST(sleeps_for_a_night) {
    begin();
    go_on(3000000000, 1000000, 1);
    speed *= 1 + 1e-6; // 1 ppm: 29 ms
    atomic_fetch_sub(&ticks_at, (int64_t)((double)atomic_load(&true_ns) * 2.6e-6));
    atomic_fetch_add(&true_ns, UINT64_C(8) * 3600 * 1000000000);
    go_on(10000000000, 1000000, 1);
    assert_string_equal(sim_source(), "tsc");
    worst_ns = 0;
    go_on(10000000000, 1000000, 1);
    assert_true(worst_ns < 1000);
    // A correction is over when it is due, not when the writer looks again.
    atomic_fetch_add(&true_ns, UINT64_C(8) * 3600 * 1000000000);
    go_on(1000, 1, 0);
    assert_true(worst_ns < 2e6);
}

static void a_while(void) {
    go_on(5000000000, 1000000, 1);
}

// A reader is stopped between a line's number and the counter, and goes on with lines that are
// newer by one or more.
TEST(a_reader_is_stopped) {
    begin();
    wave_ns = 5e6;
    wave_period_ns = 20e9;
    for (int i = 0; i < 20; i++) {
        meanwhile = a_while;
        newest = sim_clock();
        assert_true(newest <= monotonic() + 3000000);
        go_on(1000000, 1000, 0);
    }
    assert_string_equal(sim_source(), "tsc");
}

TEST(a_fork_begins_anew) {
    begin();
    go_on(3000000000, 1000000, 1);
    calibration.last.ticks = 1; // half of a pair
    atomic_store(&calibration.busy, 1);
    sim_forked();
    go_on(5000000000, 1000000, 1);
    assert_string_equal(sim_source(), "tsc");
    assert_true(worst_ns < AHEAD_NS + 1500);
}

static void run_for_a_while(void) {
    fresh_world();
    begin();
    go_on(3000000000, 1000000, 1);
}

// After each fault: the clock for ever, and nothing has gone backwards.
static void gives_up(const char *fault) {
    go_on(3000000000, 1000000, 1);
    print_message("# %s\n", fault);
    assert_string_equal(sim_source(), "clock");
    go_on(3000000000, 1000000, 1);
    assert_string_equal(sim_source(), "clock");
}

TEST(faults) {
    run_for_a_while();
    atomic_fetch_add(&ticks_at, 26000000); // 10 ms
    gives_up("the counter jumps ahead");
    run_for_a_while();
    atomic_fetch_add(&clock_at, 10000000);
    gives_up("the counter stood still (the machine slept)");
    run_for_a_while();
    atomic_fetch_sub(&ticks_at, (int64_t)((double)atomic_load(&true_ns) * 1.3));
    speed *= 1.5;
    gives_up("the counter is faster (another machine)");
    run_for_a_while();
    atomic_fetch_add(&ticks_at, (int64_t)((double)atomic_load(&true_ns) * 1.3));
    speed *= 0.5;
    gives_up("the counter is slower");
    run_for_a_while();
    atomic_fetch_sub(&ticks_at, (int64_t)((double)atomic_load(&true_ns) * 2.6));
    newest = 0; // (times of a counter that was set back cannot be told)
    gives_up("the counter is set back");
}

// ---- threads ----------------------------------------------------------------------------------

#define READERS 3
#define RUN_NS (test_rounds(500, 2500) * UINT64_C(1000000))
static uint64_t (*read_clock)(void);
static _Atomic uint64_t seen; // the greatest time that anybody has been told
static _Atomic uint64_t reads, backwards;
static _Atomic int stop;

// Whoever knows of a time reads a later one, or the same.
static void *reader(void *unused) {
    (void)unused;
    uint64_t n = 0;
    for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++) {
        uint64_t known = atomic_load_explicit(&seen, memory_order_acquire);
        const uint64_t t = read_clock();
        if (t < known)
            atomic_fetch_add(&backwards, 1);
        while (t > known && !atomic_compare_exchange_weak(&seen, &known, t))
            ;
    }
    atomic_fetch_add(&reads, n);
    return NULL;
}

// For so long, and until there are so many lines.
static void run_readers(uint64_t (*what)(void), void (*adjust)(void), uint64_t ns, uint64_t lines) {
    pthread_t threads[READERS];
    read_clock = what;
    atomic_store(&seen, 0);
    atomic_store(&reads, 0);
    atomic_store(&backwards, 0);
    atomic_store(&stop, 0);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader, NULL), 0);
    const struct timespec pause = {0, 50000};
    for (const uint64_t end = real_ns() + ns;
         real_ns() < end || atomic_load(&now.number) < lines;) {
        adjust();
        nanosleep(&pause, NULL);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    print_message("# %llu readings\n", (unsigned long long)atomic_load(&reads));
    assert_true(atomic_load(&reads) > 1000);
}

// A publisher that loses its core, between its last look and its store, for longer than the bend is
// ahead is not what is tested here.
static int is_late;
static void calibrate_in_time(void) {
    const uint64_t before = atomic_load(&now.number);
    sim_calibrate();
    if (atomic_load(&now.number) != before && real_ns() - looked > BEND_NS / 2)
        is_late = 1;
}

TEST(threads_under_recalibration) {
    do {
        fresh_world();
        live = 1;
        wave_ns = 4000; // 400 ppm
        wave_period_ns = 20e6;
        BASE_LINE_NS = 1000000, EVERY_NS = 8000000, BEND_NS = 5000000, CORRECTION_NS = 200000;
#ifdef __SANITIZE_THREAD__ // where more instructions lie between its last look and its store
        BASE_LINE_NS = 20000000, EVERY_NS = 20000000, BEND_NS = 15000000;
#endif
        is_late = 0;
        run_readers(sim_clock, calibrate_in_time, RUN_NS, 51);
    } while (is_late);
    print_message("# %llu lines\n", (unsigned long long)atomic_load(&now.number));
    assert_int_equal(atomic_load(&backwards), 0);
    assert_string_equal(sim_source(), "tsc");
}

TEST(the_real_one) {
    errno = 4321;
    ct_clock_calibrate();
    assert_string_equal(ct_clock_get_source(), "clock");
    run_readers(ct_clock_read, ct_clock_calibrate, RUN_NS, 0);
    assert_int_equal(atomic_load(&backwards), 0);
    print_message("# source: %s\n", ct_clock_get_source());
    uint64_t worst = 0;
    for (int i = 0; i < 10000; i++) {
        const uint64_t before = real_ns(), t = ct_clock_read(), after = real_ns();
        const uint64_t off = t < before ? before - t : t > after ? t - after : 0;
        worst = off > worst ? off : worst;
    }
    print_message("# at most %llu ns beside CLOCK_MONOTONIC\n", (unsigned long long)worst);
    assert_true(worst < 100000);
    errno = 4321;
    ct_clock_calibrate();
    assert_int_equal(errno, 4321);
}
