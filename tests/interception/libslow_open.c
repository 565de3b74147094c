// SPDX-License-Identifier: Apache-2.0
// A library to preload before the recorder, for which a file is on a slow disk: a thread beside the
// main one that opens what SLOW_OPEN names waits until the main thread, at the exit, waits for the
// recorder. It makes the file SLOW_SAID first.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../lib/open_hook.h"

static atomic_int exiting, released;

static int is_main_thread(void) {
    return syscall(SYS_gettid) == getpid();
}

static int really_sleep(const struct timespec *t, struct timespec *left) {
    return (int)syscall(SYS_nanosleep, t, left);
}

int nanosleep(const struct timespec *t, struct timespec *left) {
    if (is_main_thread() && atomic_load(&exiting))
        atomic_store(&released, 1);
    return really_sleep(t, left);
}

static void wait_for_the_exit(const char *said) {
    const struct timespec pause = {0, 100000};
    say(said);
    while (!atomic_load(&released))
        (void)really_sleep(&pause, NULL);
}

static int open_file(const char *path, int flags, mode_t mode) {
    const char *slow = getenv("SLOW_OPEN"), *said = getenv("SLOW_SAID");
    if (slow && said && !strcmp(path, slow) && !is_main_thread())
        wait_for_the_exit(said);
    return really_open(path, flags, mode);
}

// Before the destructors of the libraries that are preloaded behind this one.
__attribute__((destructor)) static void note_exit(void) {
    atomic_store(&exiting, 1);
}
