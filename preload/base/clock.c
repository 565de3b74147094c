// SPDX-License-Identifier: Apache-2.0
// The time of events: CLOCK_MONOTONIC, computed from the time stamp counter where all cores share
// one.
//
// Time is a function of the counter (struct line), which the writer thread replaces as a whole. A
// reader loads the number of the current line, its values and the counter, and starts again if the
// number has changed meanwhile.
//
// Invariants, by which time never runs backwards:
//   T1  A line only rises. lfence keeps the processor from reading the counter before earlier loads
//   are done.
//   T2  A reader that synchronizes with an earlier reader sees the same line or a newer one,
//   because the number of the line is ordinary atomic
//       memory.
//   T3  A newer line equals the older one up to a point in the future, and bends there. It is
//   published well before that point. So no
//       reader takes a time beyond the bend from the older line: a reader that was preempted finds
//       the number changed.
//   T4  The first line begins slightly ahead of CLOCK_MONOTONIC. After the last line, time is
//   CLOCK_MONOTONIC plus the amount by
//       which that line was ahead of it.
//   T5  A line that was computed too long ago is not published. Between that test and the store lie
//   a few instructions.
#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/read_file.h"

#if defined(__x86_64__) && !defined(CT_CLOCK_SIMULATED)
#include <cpuid.h>
#endif

#ifndef CT_CLOCK_SIMULATED // else a test defines the counter, the clock and these constants
#define BASE_LINE_NS UINT64_C(20000000)
#define EVERY_NS UINT64_C(1000000000)
#define BEND_NS UINT64_C(10000000) // from the publication of a line to its bend
#define CORRECTION_NS UINT64_C(250000000)
#define AHEAD_NS 500u    // by which the first line is ahead; more than the error of a pair
#define ERROR_NS 1000000 // a larger error is no drift

static uint64_t monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef __x86_64__
static inline uint64_t counter(void) {
    uint32_t low, high;
    // T1
    __asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static inline uint64_t counter_loose(void) {
    return __builtin_ia32_rdtsc();
}

// Whether all cores share one counter, which runs at one rate in all sleep states. The kernel
// checks the former, and uses the counter as its own clock source only if it holds.
static int counter_is_a_clock(void) {
    uint32_t a, b, c, d = 0;
    char name[8] = "";
    int allowed = 0;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return 0;
    if (!prctl(PR_GET_TSC, &allowed) && allowed != PR_TSC_ENABLE)
        return 0;
    const size_t n = ct_read_file(
        "/sys/devices/system/clocksource/clocksource0/current_clocksource", name, sizeof name);
    return n == 4 && !memcmp(name, "tsc\n", 4);
}
#else
// On aarch64 clock_gettime reads the counter in user space, which costs no more than this file
// could.
static inline uint64_t counter(void) {
    return 0;
}
static inline uint64_t counter_loose(void) {
    return 0;
}
static int counter_is_a_clock(void) {
    return 0;
}
#endif
#endif

__extension__ typedef unsigned __int128 u128;
#define RATE_BITS 40 // a rate is nanoseconds per tick << RATE_BITS

// Time as a function of the counter, the latest part first: ns + (counter - at) * rate from `at`
// on. BEFORE continues the older line, CORRECTING removes the error, STEADY has the rate that was
// measured last, which may have to last long in an idle program.
struct part {
    uint64_t at, ns, rate;
};
enum { STEADY, CORRECTING, BEFORE, PARTS };
struct line {
    struct part part[PARTS];
};

// Two lines in turns: a reader that loads values of the line that is being written finds the number
// changed. Each value is stored with release, so that this holds in the C11 memory model, too: a
// reader that sees a new value sees the new number.
static struct {
    _Atomic uint64_t number;      // of lines so far, or CLOCK_FOR_EVER
    _Atomic uint64_t clock_ahead; // nanoseconds to add to CLOCK_MONOTONIC after the last line (T4)
    struct {
        _Atomic uint64_t at, ns, rate;
    } part[2][PARTS];
} now __attribute__((aligned(64)));
#define CLOCK_FOR_EVER UINT64_MAX

static inline struct part part_take(uint64_t number, int i) {
    return (struct part){
        .at = atomic_load_explicit(&now.part[number & 1][i].at, memory_order_acquire),
        .ns = atomic_load_explicit(&now.part[number & 1][i].ns, memory_order_acquire),
        .rate = atomic_load_explicit(&now.part[number & 1][i].rate, memory_order_acquire),
    };
}

static inline uint64_t part_at(const struct part *p, uint64_t ticks) {
    return p->ns + (uint64_t)((u128)(ticks - p->at) * p->rate >> RATE_BITS);
}

static inline uint64_t line_at(uint64_t number, uint64_t ticks) {
    struct part p;
    for (int i = 0; i < PARTS; i++) {
        p = part_take(number, i);
        if (ticks >= p.at)
            return part_at(&p, ticks);
    }
    return p.ns; // the counter has been set back
}

static __attribute__((noinline)) uint64_t by_clock(uint64_t number) {
    const uint64_t t = monotonic();
    return number ? t + atomic_load_explicit(&now.clock_ahead, memory_order_acquire) : t;
}

static inline __attribute__((always_inline)) uint64_t clock_by(uint64_t (*read_counter)(void)) {
    uint64_t number = atomic_load_explicit(&now.number, memory_order_acquire), t;
    for (;;) {
        if (__builtin_expect(number + 1 <= 1, 0)) { // 0, or CLOCK_FOR_EVER
            t = by_clock(number);
        } else {
            t = line_at(number, read_counter());
        }
        const uint64_t still = atomic_load_explicit(&now.number, memory_order_acquire);
        if (__builtin_expect(still == number, 1))
            return t;
        number = still;
    }
}

uint64_t ct_clock_read(void) {
    return clock_by(counter);
}

#ifndef CT_CLOCK_SIMULATED
uint64_t ct_clock_read_unordered(void) {
    return clock_by(counter_loose);
}
#endif

const char *ct_clock_get_source(void) {
    return atomic_load(&now.number) + 1 <= 1 ? "clock" : "tsc";
}

// ---- calibration ------------------------------------------------------------------------------

struct pair {
    uint64_t ticks, ns;
};

enum { UNTRIED, USABLE, USELESS };
static struct {
    _Atomic int busy;
    int counter;
    struct pair last; // ns 0: none
} calibration;

// Reads the clock between two readings of the counter, eight times, and takes the narrowest pair of
// readings.
static struct pair pair_take(void) {
    struct pair best = {0, 0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        const uint64_t before = counter();
        const uint64_t ns = monotonic();
        const uint64_t width = counter() - before;
        if (width < least) {
            least = width;
            best = (struct pair){before + width / 2, ns};
        }
    }
    return best;
}

static uint64_t rate_of(struct pair from, struct pair to) {
    return (uint64_t)(((u128)(to.ns - from.ns) << RATE_BITS) / (to.ticks - from.ticks));
}

// Publishes a line, unless more than `within` ticks have passed since `pair` (T5).
static void publish(const struct line *l, struct pair pair, uint64_t within) {
    const uint64_t number = atomic_load(&now.number) + 1;
    for (int i = 0; i < PARTS; i++) {
        atomic_store_explicit(&now.part[number & 1][i].at, l->part[i].at, memory_order_release);
        atomic_store_explicit(&now.part[number & 1][i].ns, l->part[i].ns, memory_order_release);
        atomic_store_explicit(&now.part[number & 1][i].rate, l->part[i].rate, memory_order_release);
    }
    if (counter() - pair.ticks < within)
        atomic_store(&now.number, number);
}

static void switch_on(struct pair pair) {
    const struct part p = {pair.ticks, pair.ns + AHEAD_NS, rate_of(calibration.last, pair)};
    const struct line l = {{p, p, p}};
    // A publication that is late by less than the base line is still ahead of the clock.
    publish(&l, pair, (pair.ticks - calibration.last.ticks) / 16);
}

// Uses CLOCK_MONOTONIC from now on, ahead by as much as the last line was (T4).
static void give_up(uint64_t number) {
    for (int i = 0; i < 16; i++) {
        const struct pair pair = pair_take();
        const int64_t ahead = (int64_t)(line_at(number, pair.ticks) - pair.ns);
        atomic_store(&now.clock_ahead, (ahead > 0 ? (uint64_t)ahead : 0) + AHEAD_NS);
        if (counter() - pair.ticks < 100000) // the thread was not preempted
            break;
    }
    atomic_store(&now.number, CLOCK_FOR_EVER);
}

static void correct(uint64_t number, struct pair pair, int64_t ahead) {
    const uint64_t rate = rate_of(calibration.last, pair);
    const uint64_t bend = ((u128)BEND_NS << RATE_BITS) / rate;
    const uint64_t correction = ((u128)CORRECTION_NS << RATE_BITS) / rate;
    int64_t change = -ahead * (int64_t)(rate / CORRECTION_NS);
    const int64_t most = (int64_t)rate / 4;
    if (change > most)
        change = most;
    if (change < -most)
        change = -most;
    struct line l = {.part[BEFORE] = part_take(number, STEADY)};
    const uint64_t at = pair.ticks + bend;
    l.part[CORRECTING] =
        (struct part){at, part_at(&l.part[BEFORE], at), (uint64_t)((int64_t)rate + change)};
    l.part[STEADY] =
        (struct part){at + correction, part_at(&l.part[CORRECTING], at + correction), rate};
    publish(&l, pair, bend / 2);
}

// Whether the error is one that the rates of the two clocks explain. The second term is for a
// process that sleeps for a night: the usual corrections of CLOCK_MONOTONIC should not make it give
// the counter up.
static int is_drift(int64_t ahead, uint64_t elapsed) {
    const uint64_t sleep = elapsed / 2000 < 1000000000 ? elapsed / 2000 : 1000000000;
    const int64_t allowed = ERROR_NS + (int64_t)sleep;
    return ahead < allowed && ahead > -allowed;
}

static void check(uint64_t number, struct pair pair, uint64_t elapsed) {
    const int64_t ahead = (int64_t)(line_at(number, pair.ticks) - pair.ns);
    // The line has reached its steady part, unless the counter has slowed down or was set back.
    if (is_drift(ahead, elapsed) && pair.ticks > part_take(number, STEADY).at &&
        pair.ticks > calibration.last.ticks)
        correct(number, pair, ahead);
    else
        give_up(number);
}

static void calibrate(uint64_t number) {
    const struct pair pair = pair_take();
    if (!calibration.last.ns) {
        calibration.last = pair;
        return;
    }
    const uint64_t elapsed = pair.ns - calibration.last.ns;
    if (elapsed < (number ? EVERY_NS : BASE_LINE_NS))
        return;
    if (number)
        check(number, pair, elapsed);
    else if (pair.ticks > calibration.last.ticks)
        switch_on(pair);
    calibration.last = pair;
}

void ct_clock_calibrate(void) {
    const int saved = errno;
    const uint64_t number = atomic_load(&now.number);
    int idle = 0;
    if (number == CLOCK_FOR_EVER || !atomic_compare_exchange_strong(&calibration.busy, &idle, 1))
        return;
    if (calibration.counter == UNTRIED)
        calibration.counter = counter_is_a_clock() ? USABLE : USELESS;
    if (calibration.counter == USABLE)
        calibrate(number);
    atomic_store(&calibration.busy, 0);
    errno = saved;
}

void ct_clock_reinit_child(void) {
    calibration.last.ns = 0;
    atomic_store(&calibration.busy, 0);
}
