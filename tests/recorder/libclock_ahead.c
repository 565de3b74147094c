// SPDX-License-Identifier: Apache-2.0
// Preloaded, it puts CLOCK_MONOTONIC ahead by the nanoseconds at the begin of the file
// CLOCK_AHEAD, which a test changes while the program runs: what takes minutes is over at once.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STEP_NS = 20000000 };

static uint64_t read_ahead(void) {
    static _Atomic(const _Atomic uint64_t *) shared;
    const _Atomic uint64_t *at = atomic_load(&shared);
    if (!at) {
        const int fd = open(getenv("CLOCK_AHEAD"), O_RDONLY | O_CLOEXEC);
        at = mmap(NULL, sizeof *at, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        atomic_store(&shared, at);
    }
    return atomic_load(at);
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    const int result = (int)syscall(SYS_clock_gettime, clock, to);
    if (!result && clock == CLOCK_MONOTONIC) {
        const uint64_t ns = (uint64_t)to->tv_nsec + read_ahead();
        to->tv_sec += (time_t)(ns / 1000000000);
        to->tv_nsec = (long)(ns % 1000000000);
    }
    return result;
}

// The kernel waits by its own clock: the caller looks at its own often enough.
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *at) {
    const struct timespec step = {0, STEP_NS};
    (void)condition;
    (void)at;
    pthread_mutex_unlock(mutex);
    nanosleep(&step, NULL);
    pthread_mutex_lock(mutex);
    return 0;
}
