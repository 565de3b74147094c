// SPDX-License-Identifier: Apache-2.0
// Calls that the driver refuses, and what follows them, one after the other:
//   alloc:MIB    allocates       free         frees the last allocation
//   fail:KIB     must be refused: 1 TiB and so many KiB
//   loop:N       N refused calls of different sizes
//   threads:N    N threads, each with one refused call of another size, at once
//   toggle:N     another thread allocates and frees 256 MiB all the time; N refused calls meanwhile
//   fork         the rest is done in a child; the parent waits for it and does the rest, too
//   say          prints a line       wait     reads a line
//   exit, _exit, abort, kill    how the process ends (the end of the list is exit)
#include "worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 64

static CUcontext context;
static CUdeviceptr last;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The recorder waits so long for its line (preload/record/publish.c). A call that took longer
// may have none: a file says so.
#define SAY_NS 150000000u

static void note_slow_call(void) {
    const char *path = getenv("SLOW_CALL_FILE");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (f)
        fclose(f);
}

static void refuse(unsigned long kib) {
    CUdeviceptr p;
    const uint64_t start_ns = now_ns();
    if (cu.alloc(&p, ((size_t)1 << 40) + (kib << 10)) != CUDA_ERROR_OUT_OF_MEMORY)
        exit(4);
    if (now_ns() - start_ns >= SAY_NS)
        note_slow_call();
}

static void refuse_all(unsigned long n) {
    for (unsigned long i = 1; i <= n; i++)
        refuse(i);
}

static void *refuse_in_thread(void *kib) {
    cu.set_context(context);
    refuse((unsigned long)(uintptr_t)kib);
    return NULL;
}

static void refuse_in_threads(unsigned long n) {
    pthread_t thread[THREADS];
    n = n < THREADS ? n : THREADS;
    for (unsigned long i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, refuse_in_thread, (void *)(uintptr_t)(i + 1)))
            exit(5);
    for (unsigned long i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

static _Atomic int toggling = 1;

static void *toggle(void *unused) {
    CUdeviceptr p;
    cu.set_context(context);
    while (toggling) {
        if (cu.alloc(&p, (size_t)256 << 20))
            exit(6);
        cu.release(p);
    }
    return unused;
}

static void refuse_beside(unsigned long n) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, toggle, NULL))
        exit(5);
    refuse_all(n);
    toggling = 0;
    pthread_join(thread, NULL);
}

static void fork_and_wait(unsigned long unused) {
    int status;
    const pid_t child = fork();
    (void)unused;
    if (child && (waitpid(child, &status, 0) != child || status))
        exit(7);
}

static void allocate(unsigned long mib) {
    if (cu.alloc(&last, mib << 20))
        exit(6);
}

static void release(unsigned long unused) {
    (void)unused;
    cu.release(last);
}

static void say(unsigned long unused) {
    (void)unused;
    puts("said");
    fflush(stdout);
}

static void wait_for_line(unsigned long unused) {
    char line[16];
    (void)unused;
    if (!fgets(line, sizeof line, stdin))
        exit(8);
}

static void end_at_once(unsigned long status) {
    _exit((int)status);
}

static void end_by_abort(unsigned long unused) {
    (void)unused;
    abort();
}

static void end_by_kill(unsigned long unused) {
    (void)unused;
    raise(SIGKILL);
}

static void end(unsigned long status) {
    exit((int)status);
}

static const struct step {
    const char *name;
    void (*run)(unsigned long number);
    int needs_driver;
} steps[] = {
    {"alloc", allocate, 1},       {"free", release, 1},
    {"fail", refuse, 1},          {"loop", refuse_all, 1},
    {"toggle", refuse_beside, 1}, {"threads", refuse_in_threads, 1},
    {"fork", fork_and_wait, 0},   {"say", say, 0},
    {"wait", wait_for_line, 0},   {"exit", end, 0},
    {"_exit", end_at_once, 0},    {"abort", end_by_abort, 0},
    {"kill", end_by_kill, 0},
};

static void run(const char *name, unsigned long number) {
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (strcmp(name, steps[i].name))
            continue;
        if (steps[i].needs_driver && !context)
            context = cu_start();
        steps[i].run(number);
        return;
    }
    exit(2);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *number = strchr(argv[i], ':');
        if (number)
            *number++ = 0;
        run(argv[i], number ? strtoul(number, NULL, 0) : 0);
    }
    return 0;
}
