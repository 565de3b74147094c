// SPDX-License-Identifier: Apache-2.0
// Allocates and frees device memory and logs every call, for traces that wrap many times:
//   alloc_free_logged THREADS CALLS SLOTS LOG [REFUSED]
// Threads share SLOTS addresses and make CALLS calls each. One allocation in REFUSED fails (0:
// none). LOG.TID of a thread is an array of 16 bytes for each call: the time of its return
// (CLOCK_MONOTONIC, ns), and address << 16 | size / 512 << 2 | failed << 1 | allocation.
#include "worker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A thread that stands still in a call holds up what the others have recorded: none is ahead of
// another by more than this, which a ring has room for.
enum { STRIDE = 4096, TAKEN = 1, FAILED = 2, SIZES = 1 << 10 };

struct call {
    uint64_t t_ns, what;
};

static _Atomic CUdeviceptr *slots;
static unsigned long slot_count, calls, refused;
static const char *log_path;
static CUcontext context;
static pthread_barrier_t abreast;

static uint64_t roll(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static struct call *open_log(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%ld", log_path, syscall(SYS_gettid));
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)(calls * sizeof(struct call))))
        exit(6);
    void *p = mmap(NULL, calls * sizeof(struct call), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        exit(6);
    return p;
}

static void note(struct call *c, CUdeviceptr p, uint64_t size, unsigned flags) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    c->what = p << 16 | size / 512 << 2 | flags;
    c->t_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static CUdeviceptr take(struct call *c, uint64_t *state) {
    const int hopeless = refused && roll(state) % refused == 0;
    const uint64_t size = (1 + roll(state) % (SIZES - 1)) * 512;
    CUdeviceptr p = 0;
    const CUresult r = cu.alloc(&p, hopeless ? (size_t)1 << 50 : size);
    note(c, r ? 0 : p, hopeless ? 0 : size, TAKEN | (r ? FAILED : 0));
    if ((r != 0) != hopeless)
        exit(4);
    return r ? 0 : p;
}

static int give(struct call *c, CUdeviceptr p) {
    const CUresult r = cu.release(p);
    note(c, p, 0, r ? FAILED : 0);
    return r == CUDA_SUCCESS;
}

static void *work(void *number) {
    uint64_t state = ((uintptr_t)number + 1) * 0x9E3779B97F4A7C15u;
    struct call *log = open_log();
    cu.set_context(context);
    for (unsigned long i = 0, stride = 0; i < calls; i++) {
        if (i / STRIDE != stride) {
            stride = i / STRIDE;
            pthread_barrier_wait(&abreast);
        }
        _Atomic CUdeviceptr *slot = &slots[roll(&state) % slot_count];
        CUdeviceptr p = atomic_exchange(slot, 0), nothing = 0;
        if (p && !give(&log[i], p))
            atomic_store(slot, p); // the driver has not taken it back
        else if (!p && (p = take(&log[i], &state)) &&
                 !atomic_compare_exchange_strong(slot, &nothing, p) && ++i < calls)
            give(&log[i], p); // another thread was faster
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[16];
    if (argc < 5)
        return 2;
    const unsigned long threads = strtoul(argv[1], NULL, 10);
    calls = strtoul(argv[2], NULL, 10);
    slot_count = strtoul(argv[3], NULL, 10);
    log_path = argv[4];
    refused = argc > 5 ? strtoul(argv[5], NULL, 10) : 0;
    slots = calloc(slot_count, sizeof *slots);
    if (calls % STRIDE == 1) // the last stride may be passed over
        return 2;
    context = cu_start();
    pthread_barrier_init(&abreast, NULL, (unsigned)(threads ? threads : 1));
    for (unsigned long i = 1; i < threads && i < 16; i++)
        pthread_create(&thread[i], NULL, work, (void *)i);
    work(NULL);
    for (unsigned long i = 1; i < threads && i < 16; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
