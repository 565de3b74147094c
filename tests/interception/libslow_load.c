// SPDX-License-Identifier: Apache-2.0
// Stands in for a library whose loading takes until a fork has begun: the loader's lock is held
// meanwhile. The two sides meet by files beside the path that WAYS_SLOW_LOAD names.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char loading[512], forking[512], loaded[512];

static void make(const char *path) {
    FILE *const f = fopen(path, "w");
    if (f)
        (void)fclose(f);
}

__attribute__((constructor)) static void wait_for_the_fork(void) {
    const char *const path = getenv("WAYS_SLOW_LOAD");
    const struct timespec pause = {0, 100000};
    if (!path)
        return;
    (void)snprintf(loading, sizeof loading, "%s.loading", path);
    (void)snprintf(forking, sizeof forking, "%s.forking", path);
    (void)snprintf(loaded, sizeof loaded, "%s.loaded", path);
    make(loading);
    while (access(forking, F_OK) != 0)
        (void)nanosleep(&pause, NULL);
    (void)nanosleep(&(struct timespec){0, 5000000},
                    NULL); // a fork that does not wait comes in between
    make(loaded);
}
