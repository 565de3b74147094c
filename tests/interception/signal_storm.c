// SPDX-License-Identifier: Apache-2.0
// A timer's signals interrupt calls of the driver at any place: the handler calls the driver, too,
// or leaves by siglongjmp. Prints how many calls reached the driver, and how many signals came.
//
// usage: signal_storm calls|jumps SIGNALS       (with tests/recorder/stub as the driver)
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemFree_v2(unsigned long long);
extern _Atomic unsigned long driver_calls;

static sigjmp_buf target;
static volatile sig_atomic_t may_jump, jumps;
static volatile unsigned signals;

static void pair(size_t bytes) {
    unsigned long long p = 0;
    if (!cuMemAlloc_v2(&p, bytes))
        cuMemFree_v2(p);
}

static void on_signal(int number) {
    (void)number;
    signals++;
    if (!jumps) {
        pair(512);
    } else if (may_jump) {
        may_jump = 0;
        siglongjmp(target, 1);
    }
}

static void storm(unsigned wanted) {
    while (signals < wanted) {
        if (jumps && sigsetjmp(target, 1))
            continue;
        may_jump = 1;
        for (int i = 0; i < 100; i++)
            pair(1024);
        may_jump = 0;
    }
}

int main(int argc, char **argv) {
    void *context;
    const struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    if (argc < 3 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 2;
    jumps = !strcmp(argv[1], "jumps");
    pair(512);
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &often, NULL);
    storm((unsigned)atoi(argv[2]));
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    pair(512);
    printf("%lu %u\n", driver_calls, signals);
    return 0;
}
