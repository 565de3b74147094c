// SPDX-License-Identifier: Apache-2.0
// Reports after the first second, every 200 ms in one line.
#include "cli/progress.h"
#include "base/now.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum {
    LEAST_MS = 1000, // of a pass, before its speed says how long the rest takes
    EVERY_MS = 200
};

static struct {
    pthread_mutex_t lock;
    int is_terminal, shown;
    unsigned headlines; // lines above that of the progress, which are erased with it
    int64_t start_ms, last_ms;
    struct ct_progress_part *parts; // NULL: one trace
    // Of the present pass over the trace, which began when less was done than before.
    int64_t pass_ms;
    unsigned percent;
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t now_ms(void) {
    return (int64_t)(ct_now_ns(CLOCK_MONOTONIC) / 1000000);
}

void ct_progress_init(void) {
    progress.is_terminal = isatty(STDERR_FILENO);
    progress.start_ms = progress.last_ms = progress.pass_ms = now_ms();
}

void ct_progress_begin_parts(struct ct_progress_part *first) {
    pthread_mutex_lock(&progress.lock);
    progress.parts = first;
    pthread_mutex_unlock(&progress.lock);
}

static unsigned percent_of(uint64_t done, uint64_t total) {
    if (!total)
        return 0;
    return done >= total ? 100 : (unsigned)((double)done * 100 / (double)total);
}

// Each trace counts the same: how large those are that are not open yet is not known.
static unsigned percent_of_parts(void) {
    unsigned sum = 0, n = 0;
    for (const struct ct_progress_part *p = progress.parts; p; p = p->next, n++)
        sum += percent_of(p->done, p->total);
    return n ? sum / n : 0;
}

static void print(int64_t now, unsigned percent) {
    const int64_t of_pass = now - progress.pass_ms;
    char left[48] = "";
    if (percent && of_pass >= LEAST_MS && !progress.parts) // (parts begin passes of their own)
        (void)snprintf(left, sizeof left, ", %lld s left of this pass",
                       (long long)((of_pass * (100 - percent) / percent + 999) / 1000));
    fprintf(stderr, "\rreading %3u %%%s \033[K", percent, left);
    fflush(stderr);
}

static void report(uint64_t done, uint64_t total) {
    const int64_t now = now_ms();
    const unsigned percent = progress.parts ? percent_of_parts() : percent_of(done, total);
    if (percent < progress.percent)
        progress.pass_ms = now;
    progress.percent = percent;
    if (now - progress.start_ms < 1000 || now - progress.last_ms < EVERY_MS)
        return;
    progress.last_ms = now;
    progress.shown = 1;
    print(now, percent);
}

void ct_progress_report(void *user, uint64_t done, uint64_t total) {
    struct ct_progress_part *part = user;
    if (!progress.is_terminal || !total)
        return;
    pthread_mutex_lock(&progress.lock);
    if (part) {
        part->done = done;
        part->total = total;
    }
    report(done, total);
    pthread_mutex_unlock(&progress.lock);
}

void ct_progress_show_headline(const char *line) {
    if (!progress.is_terminal)
        return;
    pthread_mutex_lock(&progress.lock);
    fprintf(stderr, "%s\n", line);
    progress.headlines++;
    pthread_mutex_unlock(&progress.lock);
}

void ct_progress_clear(void) {
    pthread_mutex_lock(&progress.lock);
    if (progress.shown || progress.headlines)
        fputs("\r\033[K", stderr);
    for (; progress.headlines; progress.headlines--)
        fputs("\033[A\033[K", stderr);
    progress.shown = 0;
    pthread_mutex_unlock(&progress.lock);
}
