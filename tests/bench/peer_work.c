// SPDX-License-Identifier: Apache-2.0
// The work on which cutrace is measured against a tracer of the heap: threads that free one
// allocation and make another, from call stacks of a given depth. Prints one line of JSON about its
// threads' own time.
//
//   peer_work [name=number]...     names and defaults: the table below
#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "peer_path.h"

enum { SIZES = 300, THREADS_MAX = 64, OUTER_FRAMES = 4 };

//  X(name, default, meaning)
#define WORK_NUMBERS(X)                                                       \
    X(pairs, 100000, "pairs of free and allocation of each thread")           \
    X(warm, 6000, "pairs before the measurement begins")                      \
    X(threads, 1, "threads, each on a processor of its own")                  \
    X(depth, 10, "frames of a call stack")                                    \
    X(paths, 32, "different call stacks that come again and again")           \
    X(fresh, 0, "of 1000 allocations, how many come from a stack of its own") \
    X(again, 0, "of 1000, how many from one of the last of those")            \
    X(live, 4096, "live allocations of a thread")                             \
    X(burst, 0, "pairs without a pause, 0: all of them")                      \
    X(pause_us, 0, "length of the pause")                                     \
    X(every_us, 0, "a burst begins so often; 0: after the pause")             \
    X(calls, 0, "1: also times every single call")                            \
    X(memory, 0, "1: also tells the memory of the process")

static struct {
#define X(name, value, meaning) long name;
    WORK_NUMBERS(X)
#undef X
} work = {
#define X(name, value, meaning) .name = value,
    WORK_NUMBERS(X)
#undef X
};

// ---- time -------------------------------------------------------------------------------------

static uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return clock_ns(CLOCK_MONOTONIC);
#endif
}

// Ticks of single calls, exact to 1/32: 5 bits behind the leading one.
enum { FINE = 5, BUCKETS = 64 << FINE };

static unsigned bucket_of(uint64_t n) {
    if (n < 1u << FINE)
        return (unsigned)n;
    const unsigned shift = 63 - (unsigned)__builtin_clzll(n) - FINE;
    return (shift + 1) << FINE | (unsigned)(n >> shift & ((1u << FINE) - 1));
}

static uint64_t bucket_end(unsigned bucket) {
    if (bucket < 1u << FINE)
        return bucket;
    const unsigned shift = (bucket >> FINE) - 1;
    return (((uint64_t)1 << FINE | (bucket & ((1u << FINE) - 1))) + 1) << shift;
}

// ---- one thread -------------------------------------------------------------------------------

struct worker {
    pthread_t thread;
    int processor;
    CUdeviceptr *slot;
    uint64_t random, cpu_ns, allocs, frees, refused;
    uint64_t made; // fresh stacks so far
    uint32_t bucket[BUCKETS];
};

static pthread_barrier_t together; // all threads and main
static pthread_barrier_t bursts;   // without main
static int measuring;

static uint64_t draw(struct worker *w, uint64_t below) {
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (uint64_t)((__uint128_t)w->random * below >> 64);
}

// A hot path differs from others in which of two like functions it calls; a fresh one goes through
// functions whose frames have different sizes, as a compiler's does.
static uint64_t draw_path(struct worker *w) {
    const uint64_t which = draw(w, 1000);
    if (which < (uint64_t)work.fresh)
        return peer_fresh_path(w->made++);
    if (which < (uint64_t)(work.fresh + work.again) && w->made)
        return peer_fresh_path(w->made - 1 - draw(w, w->made < 4096 ? w->made : 4096));
    return peer_hot_path(draw(w, (uint64_t)work.paths));
}

static void count_call(struct worker *w, uint64_t since) {
    if (work.calls && measuring)
        w->bucket[bucket_of(ticks() - since)]++;
}

static void give(struct worker *w, CUdeviceptr *slot) {
    const uint64_t since = work.calls ? ticks() : 0;
    if (cuMemFree_v2(*slot) != CUDA_SUCCESS)
        w->refused++;
    count_call(w, since);
    w->frees++;
    *slot = 0;
}

static void take(struct worker *w, CUdeviceptr *slot, size_t bytes) {
    const uint64_t since = work.calls ? ticks() : 0;
    if (cuMemAlloc_v2(slot, bytes) != CUDA_SUCCESS)
        w->refused++;
    count_call(w, since);
    w->allocs++;
}

struct pair {
    struct worker *worker;
    CUdeviceptr *slot;
    size_t bytes;
};

void peer_arrived(void *user) {
    const struct pair *p = user;
    if (*p->slot)
        give(p->worker, p->slot);
    take(p->worker, p->slot, p->bytes);
}

static void one_pair(struct worker *w, CUdeviceptr *slot) {
    struct pair p = {w, slot, (1 + draw(w, SIZES)) * 512};
    peer_walk(draw_path(w), (unsigned)(work.depth - OUTER_FRAMES), &p);
}

static void pause_for(long us) {
    const struct timespec t = {us / 1000000, us % 1000000 * 1000};
    if (us)
        nanosleep(&t, NULL);
}

// The rate stays the same whatever a burst takes.
static void wait_until(struct timespec *due, long us) {
    due->tv_nsec += us * 1000;
    due->tv_sec += due->tv_nsec / 1000000000;
    due->tv_nsec %= 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, due, NULL) == EINTR)
        ;
}

static void run_pairs(struct worker *w, long pairs) {
    const long burst = work.burst ? work.burst : pairs;
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (long done = 0; done < pairs;) {
        const long end = done + burst < pairs ? done + burst : pairs;
        if (work.burst)
            pthread_barrier_wait(&bursts);
        const uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (; done < end; done++)
            one_pair(w, &w->slot[draw(w, (uint64_t)work.live)]);
        w->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        if (work.every_us)
            wait_until(&due, work.every_us);
        else
            pause_for(work.pause_us);
    }
}

static void fill(struct worker *w) {
    for (long i = 0; i < work.live; i++) {
        one_pair(w, &w->slot[i]);
        if (work.burst && i % work.burst == 0)
            pause_for(work.pause_us);
    }
}

static void *run(void *user) {
    struct worker *w = user;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(w->processor, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set))
        fputs("peer_work: cannot pin a thread\n", stderr);
    fill(w);
    run_pairs(w, work.warm);
    w->cpu_ns = 0;
    pthread_barrier_wait(&together); // the main thread reads the clock between these two
    pthread_barrier_wait(&together);
    run_pairs(w, work.pairs);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together); // it has looked at the memory
    for (long i = 0; i < work.live; i++)
        give(w, &w->slot[i]);
    return NULL;
}

// ---- the process ------------------------------------------------------------------------------

static long resident_bytes(void) {
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Rss: %ld kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

static void tell(const struct worker *w, uint64_t wall_ns, double ns_per_tick, long memory) {
    uint64_t cpu_ns = 0, slowest_ns = 0, allocs = 0, frees = 0, refused = 0;
    uint64_t calls = 0, seen = 0, p999 = 0;
    for (long i = 0; i < work.threads; i++) {
        cpu_ns += w[i].cpu_ns;
        slowest_ns = w[i].cpu_ns > slowest_ns ? w[i].cpu_ns : slowest_ns;
        allocs += w[i].allocs;
        frees += w[i].frees;
        refused += w[i].refused;
        for (unsigned b = 0; b < BUCKETS; b++)
            calls += w[i].bucket[b];
    }
    for (unsigned b = 0; b < BUCKETS && calls && !p999; b++) {
        for (long i = 0; i < work.threads; i++)
            seen += w[i].bucket[b];
        if (seen * 1000 >= calls * 999)
            p999 = bucket_end(b);
    }
    printf(
        "{\"cpu_ns\": %lu, \"slowest_ns\": %lu, \"wall_ns\": %lu, \"events\": %lu, \"allocs\": %lu, \"frees\": %lu, "
        "\"refused\": %lu, \"p999_ns\": %.0f, \"rss\": %ld}\n",
        cpu_ns, slowest_ns, wall_ns, 2ul * (unsigned long)(work.pairs * work.threads), allocs,
        frees, refused, (double)p999 * ns_per_tick, memory);
}

static int parse(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        int known = 0;
#define X(member, value, meaning)                                  \
    if (equals && (size_t)(equals - argv[i]) == strlen(#member) && \
        !strncmp(argv[i], #member, strlen(#member))) {             \
        work.member = strtol(equals + 1, NULL, 10);                \
        known = 1;                                                 \
    }
        WORK_NUMBERS(X)
#undef X
        if (!known) {
            fprintf(stderr, "peer_work: what is %s?\n", argv[i]);
            return -1;
        }
    }
    return work.threads < 1 || work.threads > THREADS_MAX || work.depth <= OUTER_FRAMES ? -1 : 0;
}

// The processors that this process may use, in turn.
static void place(struct worker *w) {
    cpu_set_t set;
    int processor = -1;
    CPU_ZERO(&set);
    (void)sched_getaffinity(0, sizeof set, &set);
    for (long i = 0; i < work.threads; i++) {
        do
            processor = (processor + 1) % CPU_SETSIZE;
        while (!CPU_ISSET(processor, &set));
        w[i].processor = processor;
    }
}

int main(int argc, char **argv) {
    struct worker *w = calloc(THREADS_MAX, sizeof *w);
    if (!w || parse(argc, argv))
        return 2;
    place(w);
    pthread_barrier_init(&together, NULL, (unsigned)work.threads + 1);
    pthread_barrier_init(&bursts, NULL, (unsigned)work.threads);
    // A tracer's own thread inherits the processors of the thread that calls first: all of them.
    struct worker first = {.random = 1};
    CUdeviceptr slot = 0;
    cuInit(0);
    take(&first, &slot, 512);
    give(&first, &slot);
    for (long i = 0; i < work.threads; i++) {
        w[i].slot = calloc((size_t)work.live, sizeof *w[i].slot);
        w[i].random = UINT64_C(0x9E3779B97F4A7C15) * (uint64_t)(i + 1);
        if (!w[i].slot || pthread_create(&w[i].thread, NULL, run, &w[i]))
            return 1;
    }
    pthread_barrier_wait(&together);
    const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC), start_ticks = ticks();
    measuring = 1;
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    const uint64_t wall_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
    const double ns_per_tick = (double)wall_ns / (double)(ticks() - start_ticks);
    const long memory = work.memory ? resident_bytes() : 0;
    measuring = 0;
    pthread_barrier_wait(&together);
    for (long i = 0; i < work.threads; i++)
        pthread_join(w[i].thread, NULL);
    w[0].allocs += first.allocs;
    w[0].frees += first.frees;
    tell(w, wall_ns, ns_per_tick, memory);
    return 0;
}
