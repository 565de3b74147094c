// SPDX-License-Identifier: Apache-2.0
// What a preloaded library adds to a program's start: runs the program with each of two libraries
// by turns, and prints the medians of both and of what the second took more, in microseconds.
//
//   peer_start RUNS LIBRARY_A LIBRARY_B PROGRAM [ARGUMENT]...
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(int64_t *ns, size_t n) {
    qsort(ns, n, sizeof *ns, compare);
    const size_t low = (n - 1) / 2, high = n / 2;
    return (double)(ns[low] + ns[high]) / 2e3;
}

// What one run took: as the clock tells it, and of a processor.
struct took {
    int64_t wall, processor;
};

static int64_t timeval_ns(struct timeval t) {
    return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_usec * 1000;
}

static struct took run(const char *library, char **command,
                       const posix_spawn_file_actions_t *actions) {
    pid_t pid;
    int status;
    struct rusage used;
    setenv("LD_PRELOAD", library, 1);
    const uint64_t start = now_ns();
    if (posix_spawnp(&pid, command[0], actions, NULL, command, environ) ||
        wait4(pid, &status, 0, &used) != pid || status) {
        fprintf(stderr, "peer_start: %s failed\n", command[0]);
        exit(1);
    }
    return (struct took){(int64_t)(now_ns() - start),
                         timeval_ns(used.ru_utime) + timeval_ns(used.ru_stime)};
}

struct column {
    int64_t *a, *b, *more;
};

static struct column column_make(size_t runs) {
    struct column c = {calloc(runs, sizeof *c.a), calloc(runs, sizeof *c.b),
                       calloc(runs, sizeof *c.more)};
    if (!runs || !c.a || !c.b || !c.more)
        exit(2);
    return c;
}

static void put(struct column *c, size_t i, int64_t a, int64_t b) {
    c->a[i] = a;
    c->b[i] = b;
    c->more[i] = b - a;
}

static void tell(const char *what, struct column *c, size_t runs, const char *end) {
    printf("\"%s\": {\"a_us\": %.1f, \"b_us\": %.1f, \"more_us\": %.1f}%s", what,
           median_us(c->a, runs), median_us(c->b, runs), median_us(c->more, runs), end);
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    const size_t runs = strtoul(argv[1], NULL, 10);
    struct column wall = column_make(runs), processor = column_make(runs);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    // The first of two is the one that finds the caches as somebody else left them: by turns.
    for (size_t i = 0; i < runs; i++) {
        const int a_first = i % 2 == 0;
        const struct took first = run(argv[a_first ? 2 : 3], argv + 4, &actions);
        const struct took second = run(argv[a_first ? 3 : 2], argv + 4, &actions);
        const struct took a = a_first ? first : second, b = a_first ? second : first;
        put(&wall, i, a.wall, b.wall);
        put(&processor, i, a.processor, b.processor);
    }
    printf("{");
    tell("time", &wall, runs, ", ");
    tell("processor time", &processor, runs, "}\n");
    return 0;
}
