// SPDX-License-Identifier: Apache-2.0
// Measures the cost of capturing a stack: thread CPU time, median of 9, for ct_capture_stack and
// for unw_backtrace followed by the same stack table.
//
// Usage: capture_cost    prints ns per capture
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/tracing.h"
#include "stack/capture.h"
#include "store/stack_table.h"

#include <libunwind.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define ROUNDS 9

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static NOINLINE uint32_t by_libunwind(void) {
    uint64_t frames[96];
    const int n = unw_backtrace((void **)frames, 80);
    return n > 1 ? ct_stack_table_intern(frames + 1, (size_t)n - 1) : 0;
}

static NOINLINE uint32_t nothing(void) {
    return 1;
}

static uint32_t (*take)(void);
static uint64_t spent;
static unsigned inner; // captures at each arrival
static uint32_t id;

static NOINLINE void arrive(void) {
    const uint64_t start = cpu_ns();
    for (unsigned i = 0; i < inner; i++)
        id |= take();
    spent += cpu_ns() - start;
}

static NOINLINE void left(unsigned n, uint64_t way);
static NOINLINE void right(unsigned n, uint64_t way) {
    if (!n)
        arrive();
    else if (way & 1)
        left(n - 1, way >> 1);
    else
        right(n - 1, way >> 1);
    __asm__ volatile("" : : : "memory");
}
static NOINLINE void left(unsigned n, uint64_t way) {
    if (!n)
        arrive();
    else if (way & 1)
        right(n - 1, way >> 1);
    else
        left(n - 1, way >> 1);
    __asm__ volatile("" : : : "memory");
}

// One capture at each arrival, so that each has another stack than the one before; the way there is
// subtracted.
static NOINLINE void descend(unsigned n, uint64_t way);
static NOINLINE void descend_there(unsigned n, uint64_t way) {
    if (!n)
        id |= take();
    else if (way & 1)
        descend(n - 1, way >> 1);
    else
        descend_there(n - 1, way >> 1);
    __asm__ volatile("nop" : : : "memory");
}
static NOINLINE void descend(unsigned n, uint64_t way) {
    if (!n)
        id |= take();
    else if (way & 1)
        descend_there(n - 1, way >> 1);
    else
        descend(n - 1, way >> 1);
    __asm__ volatile("" : : : "memory");
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double same_stack(uint32_t (*how)(void), unsigned depth) {
    double t[ROUNDS];
    take = how;
    inner = 20000;
    for (int r = -1; r < ROUNDS; r++) {
        spent = 0;
        left(depth, 0x5a5a5a5a5a5a);
        if (r >= 0)
            t[r] = (double)spent / inner;
    }
    qsort(t, ROUNDS, sizeof *t, by_value);
    return t[ROUNDS / 2];
}

// `known` stacks in no order; `fresh` of 100 are new ones.
static double many_stacks(uint32_t (*how)(void), unsigned depth, unsigned known, unsigned fresh) {
    const unsigned n = 20000;
    double t[ROUNDS];
    static uint64_t random_state = 1, news = 1;
    take = how;
    for (int r = -2; r < ROUNDS; r++) {
        const uint64_t start = cpu_ns();
        for (unsigned i = 0; i < n; i++) {
            random_state = random_state * 6364136223846793005u + 1442695040888963407u;
            const uint64_t which = random_state >> 40, dice = random_state >> 33 & 127;
            uint64_t way = (which % known) * UINT64_C(0x9E3779B97F4A7C15) >> 20;
            if (dice * 100 < fresh * 128)
                way = ++news * UINT64_C(0xD6E8FEB86659FD93) >> 16;
            descend(depth, way & ((UINT64_C(1) << depth) - 1));
        }
        if (r >= 0)
            t[r] = (double)(cpu_ns() - start) / n;
    }
    qsort(t, ROUNDS, sizeof *t, by_value);
    return t[ROUNDS / 2];
}

int main(void) {
    static const unsigned depths[] = {8, 38};
    char path[64];
    snprintf(path, sizeof path, "/tmp/measure.%d.zst", (int)getpid());
    setenv("CUTRACE_OUTPUT", path, 0);
    setenv("CUTRACE_STACK_MEMORY", "512M", 0);
    (void)ct_tracing_is_on();
    (void)ct_capture_stack();
    for (int i = 0; i < 3; i++) { // past the base line of the clock
        usleep(30000);
        ct_clock_calibrate();
    }
    double clock_ns[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        const uint64_t start = cpu_ns();
        for (int i = 0; i < 100000; i++)
            (void)ct_clock_read();
        clock_ns[r] = (double)(cpu_ns() - start) / 100000;
    }
    qsort(clock_ns, ROUNDS, sizeof *clock_ns, by_value);
    printf("ct_clock_read (%s) %.1f ns\n", ct_clock_get_source(), clock_ns[ROUNDS / 2]);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned d = depths[i];
        left(d, 0);
        take = ct_capture_stack;
        inner = 1;
        id = 0;
        left(d, 0);
        const uint32_t frames = ct_stack_table_get(id)->frames;
        printf("%u frames: the same stack: unw_backtrace %.1f, ct_capture_stack %.1f\n", frames,
               same_stack(by_libunwind, d), same_stack(ct_capture_stack, d));
        static const unsigned mixes[][2] = {{32, 0}, {256, 0}, {256, 15}};
        for (unsigned m = 0; m < 3; m++) {
            const double empty = many_stacks(nothing, d, mixes[m][0], mixes[m][1]);
            const double theirs = many_stacks(by_libunwind, d, mixes[m][0], mixes[m][1]);
            const double ours = many_stacks(ct_capture_stack, d, mixes[m][0], mixes[m][1]);
            printf("  %u stacks, %u %% new: unw_backtrace %.1f, ct_capture_stack %.1f\n",
                   mixes[m][0], mixes[m][1], theirs - empty, ours - empty);
        }
    }
    const struct ct_capture_counts c = ct_capture_counts();
    printf("recalled %lu, walked %lu, unwound %lu\n", c.recalled, c.walked, c.unwound);
    unlink(path);
    return 0;
}
