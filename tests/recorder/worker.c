// SPDX-License-Identifier: Apache-2.0
// Allocates and frees device memory until another process kills it:
//   worker THREADS MICROSECONDS SLOTS CALLS [SEED]
// Threads share SLOTS addresses (one may free what another allocated), pause MICROSECONDS between
// calls, and stop after CALLS calls each (0: never). Some allocations and some frees fail. SLOTS
// above 1000 are filled first. A single thread prints its results at the end.
// WORKER_REFUSALS=N: each N-th allocation fails (500; 0: none).
// WORKER_FILES=1: no file descriptor is left from the first call on; =2: after half of the calls.
// WORKER_LEAVES=root|user|files: before it starts its threads, it goes into another root folder,
// becomes another user or closes all descriptors.
// WORKER_PAUSE: after half of the calls, prints a line and waits for stdin.
#include "worker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic CUdeviceptr *slots;
static unsigned long slot_count, calls, seed, refusals = 500;
static unsigned pause_us;
static CUcontext context;

static unsigned roll(uint64_t *state, unsigned long n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*state >> 33) % n);
}

static uint64_t sum; // of results and addresses, of a single thread
static int alone;

static void note(uint64_t n) {
    if (alone)
        sum = (sum ^ n) * 0x100000001B3u;
}

static CUdeviceptr take(uint64_t *state) {
    static _Atomic unsigned long taken;
    const int hopeless = refusals && atomic_fetch_add(&taken, 1) % refusals == refusals - 1;
    CUdeviceptr p = 0;
    const CUresult r = cu.alloc(&p, hopeless ? (size_t)1 << 50 : 512 + roll(state, 4096));
    cu.returned();
    note((uint64_t)r);
    note(p % (1 << 21));
    if (!hopeless && r)
        exit(4);
    return hopeless ? 0 : p;
}

static void give(CUdeviceptr p, int valid) {
    const CUresult r = cu.release(p);
    cu.returned();
    note((uint64_t)r);
    if ((r == CUDA_SUCCESS) != valid)
        exit(5);
}

static void one_call(uint64_t *state) {
    _Atomic CUdeviceptr *slot = &slots[roll(state, slot_count)];
    CUdeviceptr p = 0, nothing = 0;
    if (roll(state, 64) == 0) {
        give(0xdead0000u + roll(state, 100), 0);
    } else if ((p = atomic_exchange(slot, 0))) {
        give(p, 1);
    } else if ((p = take(state)) && !atomic_compare_exchange_strong(slot, &nothing, p)) {
        give(p, 1); // another thread was faster
    }
}

// Different ways to the same call, for different stacks.
static void by_many_ways(uint64_t *state, unsigned way);
#define WAY(n)                                                               \
    static __attribute__((noinline)) void way_##n(uint64_t *s, unsigned w) { \
        by_many_ways(s, w / 4);                                              \
        __asm__ volatile("");                                                \
    }
WAY(0)
WAY(1)
WAY(2)
WAY(3)

static void by_many_ways(uint64_t *state, unsigned way) {
    static void (*const ways[])(uint64_t *, unsigned) = {way_0, way_1, way_2, way_3};
    if (way)
        ways[way % 4](state, way);
    else
        one_call(state);
}

static int wanted(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static void use_up_files(void) {
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        ;
}

static int leave(const char *what) {
    if (!strcmp(what, "root"))
        return chroot("/dev") || chdir("/");
    if (!strcmp(what, "user"))
        return setgid(65534) || setuid(65534);
    for (int i = 0; i < 1024; i++)
        close(i);
    return 0;
}

static void at_half(void) {
    char c;
    if (wanted("WORKER_FILES") == 2)
        use_up_files();
    if (wanted("WORKER_PAUSE") && (write(1, "half\n", 5) != 5 || read(0, &c, 1) != 1))
        exit(6);
}

static void *work(void *number) {
    uint64_t state = (seed + (uintptr_t)number) * 0x9E3779B97F4A7C15u + 1;
    cu.set_context(context);
    for (unsigned long i = 0; !calls || i < calls; i++) {
        by_many_ways(&state, roll(&state, 256));
        if (pause_us)
            usleep(pause_us);
        if (calls && i == calls / 2 && !number)
            at_half();
    }
    return NULL;
}

static void fill(void) {
    uint64_t state = seed;
    for (unsigned long i = 0; slot_count > 1000 && i < slot_count; i++)
        slots[i] = take(&state);
}

int main(int argc, char **argv) {
    pthread_t t[64];
    if (argc < 5)
        return 2;
    const unsigned long threads = strtoul(argv[1], NULL, 10);
    pause_us = (unsigned)strtoul(argv[2], NULL, 10);
    slot_count = strtoul(argv[3], NULL, 10);
    calls = strtoul(argv[4], NULL, 10);
    seed = argc > 5 ? strtoul(argv[5], NULL, 10) : 1;
    slots = calloc(slot_count, sizeof *slots);
    alone = threads == 1;
    if (getenv("WORKER_REFUSALS"))
        refusals = (unsigned long)wanted("WORKER_REFUSALS");
    cu_load();
    if (wanted("WORKER_FILES") == 1)
        use_up_files();
    context = cu_begin();
    if (getenv("WORKER_LEAVES") && leave(getenv("WORKER_LEAVES")))
        exit(7);
    fill();
    for (unsigned long i = 1; i < threads && i < 64; i++)
        pthread_create(&t[i], NULL, work, (void *)i);
    work(NULL);
    for (unsigned long i = 1; i < threads && i < 64; i++)
        pthread_join(t[i], NULL);
    if (alone)
        printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
