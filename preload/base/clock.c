// SPDX-License-Identifier: Apache-2.0
// The time of events: CLOCK_MONOTONIC's, read from the time stamp counter where that is one clock for all cores.
//
// Time is a function of the counter that is replaced as a whole (struct line): readers take the number of the current
// one, its values and the counter, and start again if the number has changed meanwhile. Why it never runs backwards:
// - One line only rises, and lfence keeps the counter from being read before what the program did earlier.
// - A reading that knows of another one (it has seen something that was done after that) sees the same line or a newer
//   one, because the number of the line is memory like all else.
// - A newer line goes on with the older one up to a moment in the future, and bends there. Nobody gets a time behind
//   the bend from the older line: it is published well before the bend, and a reader that was stopped in between
//   finds the number changed.
// - The first line begins a little ahead of the clock; what follows the last line is the clock plus what the line was
//   ahead of it, if it was.
// Who publishes may be stopped just before the store: what it has computed is thrown away if it has become old by
// then. Between that look and the store there are a few instructions.
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(CT_CLOCK_SIMULATED)
#include <cpuid.h>
#endif

#ifndef CT_CLOCK_SIMULATED // a test brings a world of its own
#define BASE_LINE_NS UINT64_C(20000000)
#define EVERY_NS UINT64_C(1000000000)
#define BEND_NS \
    UINT64_C(10000000) // from the publication of a line to where it leaves the older one
#define CORRECTION_NS UINT64_C(250000000)
#define AHEAD_NS 500u    // of the clock at the switch; more than what a pair is wrong by
#define ERROR_NS 1000000 // a greater one is no drift

static uint64_t monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef __x86_64__
static inline uint64_t counter(void) {
    uint32_t low, high;
    // Not before all earlier loads have their values.
    __asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static inline uint64_t counter_loose(void) {
    return __builtin_ia32_rdtsc();
}

// One counter for all cores, at one speed, in all states of sleep; the kernel watches over the first and says so by
// using it itself.
static int counter_is_a_clock(void) {
    uint32_t a, b, c, d = 0;
    char name[8] = "";
    int allowed = 0;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return 0;
    if (!prctl(PR_GET_TSC, &allowed) && allowed != PR_TSC_ENABLE)
        return 0;
    const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                        O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t n = read(fd, name, sizeof name - 1);
    (void)close(fd);
    return n == 4 && !memcmp(name, "tsc\n", 4);
}
#else
// aarch64's clock_gettime reads its counter in user space and costs no more than that.
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

// Time as a function of the counter, the newest part first: ns + (counter - at) * rate from `at` on. The last part is
// what was before, the middle one takes away the error, the first one is the clock's speed as it was measured last: it
// may have to do for long, if the program has nothing to record.
struct part {
    uint64_t at, ns, rate;
};
enum { STEADY, CORRECTING, BEFORE, PARTS };
struct line {
    struct part part[PARTS];
};

// Two, by turns: a reader that takes the values of the one that is being written finds the number changed. Every value
// is published for itself so that this holds in the order of C11 too: who sees a new value sees the new number.
static struct {
    _Atomic uint64_t number;      // lines so far
    _Atomic uint64_t clock_ahead; // with CLOCK_FOR_EVER: nanoseconds
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
    return p.ns; // a counter that has been set back
}

static __attribute__((noinline)) uint64_t by_clock(uint64_t number) {
    const uint64_t t = monotonic();
    return number ? t + atomic_load_explicit(&now.clock_ahead, memory_order_acquire) : t;
}

static inline __attribute__((always_inline)) uint64_t clock_by(uint64_t (*read_counter)(void)) {
    uint64_t number = atomic_load_explicit(&now.number, memory_order_acquire), t;
    for (;;) {
        if (__builtin_expect(number + 1 <= 1, 0)) { // 0 or CLOCK_FOR_EVER
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

// The clock between two readings of the counter; of a few, the one with the least time in between.
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

// Unless it has become too late for it: `within` is how many ticks may have passed since `pair`.
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
    // Who is late by less than the base line finds this line still ahead of the clock.
    publish(&l, pair, (pair.ticks - calibration.last.ticks) / 16);
}

// The clock for ever; ahead of what was told until now.
static void give_up(uint64_t number) {
    for (int i = 0; i < 16; i++) {
        const struct pair pair = pair_take();
        const int64_t ahead = (int64_t)(line_at(number, pair.ticks) - pair.ns);
        atomic_store(&now.clock_ahead, (ahead > 0 ? (uint64_t)ahead : 0) + AHEAD_NS);
        if (counter() - pair.ticks < 100000) // not stopped in between
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
    change = change > most ? most : change < -most ? -most : change;
    struct line l = {.part[BEFORE] = part_take(number, STEADY)};
    const uint64_t at = pair.ticks + bend;
    l.part[CORRECTING] =
        (struct part){at, part_at(&l.part[BEFORE], at), (uint64_t)((int64_t)rate + change)};
    l.part[STEADY] =
        (struct part){at + correction, part_at(&l.part[CORRECTING], at + correction), rate};
    publish(&l, pair, bend / 2);
}

// How far the counter may have gone off since the last look. The second term is for a process that sleeps for a night:
// it is not to lose the counter because of the usual corrections of the clock.
static int is_drift(int64_t ahead, uint64_t elapsed) {
    const uint64_t sleep = elapsed / 2000 < 1000000000 ? elapsed / 2000 : 1000000000;
    const int64_t allowed = ERROR_NS + (int64_t)sleep;
    return ahead < allowed && ahead > -allowed;
}

static void check(uint64_t number, struct pair pair, uint64_t elapsed) {
    const int64_t ahead = (int64_t)(line_at(number, pair.ticks) - pair.ns);
    // The line is at its steady part by now, or the counter has slowed down or been set back.
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
