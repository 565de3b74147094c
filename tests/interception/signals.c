// SPDX-License-Identifier: Apache-2.0
// The host's signals: every handler, its mask, and who gets a signal sent to the process.
#define _GNU_SOURCE
#include "cu.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t wrong_thread, hits;
static pid_t main_thread;

static void on_signal(int n) {
    (void)n;
    hits++;
    if (gettid() != main_thread)
        wrong_thread = 1;
}

static void show(const char *when) {
    printf("%s:", when);
    for (int i = 1; i < 65; i++) {
        struct sigaction a;
        if (sigaction(i, NULL, &a) == 0 && a.sa_handler != SIG_DFL)
            printf(" %d", i);
    }
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < 65; i++)
        if (sigismember(&mask, i) == 1)
            printf(" blocked %d", i);
    puts("");
}

int main(void) {
    main_thread = gettid();
    show("before");
    start(0);
    take(MIB);
    show("after");
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 200; i++) {
        kill(getpid(), SIGUSR1);
        CU(cuMemFree_v2)(take(MIB));
    }
    printf("handled %d, in the wrong thread %d\n", (int)hits > 0, (int)wrong_thread);
    return 0;
}
