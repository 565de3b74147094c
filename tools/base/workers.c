// SPDX-License-Identifier: Apache-2.0
// One counter hands out the work. Threads live no longer than a run.
#include "base/workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MOST = 16,
    STACK_BYTES = 8 << 20, // a main thread's usual one: the work may be what a main thread does
};

struct run {
    size_t n;
    atomic_size_t next;
    void (*work)(void *user, size_t i);
    void *user;
};

static _Thread_local int is_at_work;

static long count_processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    return sysconf(_SC_NPROCESSORS_ONLN); // (there are more than a set has room for)
}

unsigned ct_workers_count(void) {
    const char *set = getenv("CUTRACE_REPORT_WORKERS");
    const long n = set && *set ? atol(set) : count_processors();
    if (n < 0)
        return 0;
    return n < MOST ? (unsigned)n : MOST;
}

static void *take(void *user) {
    struct run *r = user;
    const int was_at_work = is_at_work;
    is_at_work = 1;
    for (size_t i; (i = atomic_fetch_add(&r->next, 1)) < r->n;)
        r->work(r->user, i);
    is_at_work = was_at_work;
    return NULL;
}

void ct_workers_run(size_t n, void (*work)(void *user, size_t i), void *user) {
    struct run r = {.n = n, .work = work, .user = user};
    const unsigned most = is_at_work ? 1 : ct_workers_count();
    pthread_t thread[MOST];
    pthread_attr_t attributes;
    unsigned threads = 0;
    pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    // Where a thread cannot be started, the others do its work.
    while (threads + 1 < most && threads + 1 < n &&
           !pthread_create(&thread[threads], &attributes, take, &r))
        threads++;
    pthread_attr_destroy(&attributes);
    (void)take(&r);
    while (threads)
        pthread_join(thread[--threads], NULL);
}
