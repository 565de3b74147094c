// SPDX-License-Identifier: Apache-2.0
// Reports blocks as PyTorch's allocator does, to the stand-in for libc10, and measures what a
// report costs. For blocks.py, which loads it into Python.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define SLOTS 4096u
#define BURST 1000

struct device {
    int8_t type, index;
};
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *ptr, int64_t bytes,
                                                           size_t allocated, size_t reserved,
                                                           struct device device);

// A pool of blocks of a few dozen sizes, each size at places of its own; which comes next is
// random.
static struct {
    uint64_t seed;
    size_t allocated;
    uint64_t bytes[SLOTS];
    unsigned char used[SLOTS];
} p;

// The thread's current stream, as libc10_cuda has it: that of BENCH_STREAM.
struct stream {
    struct device device;
    int64_t id;
};
static __thread int64_t *_ZN3c104cuda12_GLOBAL__N_115current_streamsE;
struct stream _ZN3c104cuda20getCurrentCUDAStreamEa(int8_t device);
EXPORT struct stream _ZN3c104cuda20getCurrentCUDAStreamEa(int8_t device) {
    static int64_t current;
    int64_t **const own = &_ZN3c104cuda12_GLOBAL__N_115current_streamsE;
    if (!*own) {
        current = getenv("BENCH_STREAM") ? atoi(getenv("BENCH_STREAM")) : 0;
        *own = &current;
    }
    return (struct stream){{1, device}, **own};
}

static uint64_t draw(void) {
    p.seed ^= p.seed << 13;
    p.seed ^= p.seed >> 7;
    p.seed ^= p.seed << 17;
    return p.seed >> 11;
}

static void begin(void) {
    p.seed = 88172645463325252u;
    (void)_ZN3c104cuda20getCurrentCUDAStreamEa(0);
    for (unsigned i = 0; i < SLOTS; i++)
        p.bytes[i] = 512u << draw() % 11 << draw() % 2;
}

static inline void report_one(void) {
    const unsigned i = (unsigned)(draw() % SLOTS);
    void *const at = (void *)(uintptr_t)(UINT64_C(0x7f0000000000) + (uint64_t)i * (2u << 20));
    const int64_t bytes = p.used[i] ? -(int64_t)p.bytes[i] : (int64_t)p.bytes[i];
    p.used[i] ^= 1;
    p.allocated += (size_t)bytes;
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
        at, bytes, p.allocated, (size_t)SLOTS * (2u << 20), (struct device){1, 0});
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int before(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// (A core that sleeps is slow for a while afterwards.)
static void stay_awake(double ns) {
    const double start = now();
    while (now() - start < ns)
        ;
}

// Median and least time of a report in bursts, between which the recorder's thread has time for
// what it does.
EXPORT void bench_bursts(int times, double *median, double *least);
EXPORT void bench_bursts(int times, double *median, double *least) {
    double *const took = malloc((size_t)times * sizeof *took);
    begin();
    for (int i = 0; i < times; i++) {
        const double start = now();
        for (int k = 0; k < BURST; k++)
            report_one();
        took[i] = (now() - start) / BURST;
        stay_awake(1e6);
    }
    qsort(took, (size_t)times, sizeof *took, before);
    *median = took[times / 2];
    *least = took[0];
    free(took);
}

EXPORT void bench_many(long n, int pause_us);
EXPORT void bench_many(long n, int pause_us) {
    begin();
    for (long i = 0; i < n; i++) {
        report_one();
        if (i % 1000 == 999)
            usleep((unsigned)pause_us);
    }
}

// The same in a thread without Python frames.
static struct {
    int times;
    double *median, *least;
} work;

static void *thread(void *unused) {
    bench_bursts(work.times, work.median, work.least);
    return unused;
}

EXPORT void bench_thread(int times, double *median, double *least);
EXPORT void bench_thread(int times, double *median, double *least) {
    pthread_t id;
    work.times = times;
    work.median = median;
    work.least = least;
    if (!pthread_create(&id, NULL, thread, NULL))
        pthread_join(id, NULL);
}
