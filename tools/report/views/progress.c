// SPDX-License-Identifier: Apache-2.0
// Reports after the first second: on a terminal every 200 ms in one line, with --progress=plain a
// line every 5 s.
#include "views/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct {
    enum ct_choice mode;
    int is_terminal, shown;
    int64_t start_ms, last_ms;
} progress;

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void ct_progress_init(const struct ct_arguments *o) {
    progress.mode = o->progress;
    progress.is_terminal = isatty(STDERR_FILENO);
    progress.start_ms = progress.last_ms = now_ms();
}

void ct_progress_report(void *user, uint64_t done, uint64_t total) {
    (void)user;
    if (progress.mode == CT_NEVER || (progress.mode == CT_AUTO && !progress.is_terminal) || !total)
        return;
    const int64_t now = now_ms();
    const int every = progress.mode == CT_AUTO ? 200 : 5000;
    if (now - progress.start_ms < 1000 || now - progress.last_ms < every)
        return;
    progress.last_ms = now;
    progress.shown = progress.mode == CT_AUTO;
    fprintf(stderr, progress.mode == CT_AUTO ? "\rreading %3u %% \033[K" : "reading %u %%\n",
            (unsigned)(done >= total ? 100 : done * 100 / total));
    fflush(stderr);
}

void ct_progress_clear(void) {
    if (progress.shown)
        fputs("\r\033[K", stderr);
    progress.shown = 0;
}
