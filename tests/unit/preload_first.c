// SPDX-License-Identifier: Apache-2.0
// The first calls of several threads: while one thread reads the options, the others wait for it,
// however long it is without a core, and their calls are recorded like all others.
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/unit.h"
#include "base/options.h"
#include "record/tracing.h"

static sem_t is_reading;
static unsigned reads;

// Wrapped by the linker: the reading of the options, in a thread that loses its core.
int __real_ct_options_read(char *const *environment, void (*say)(const char *line));
int __wrap_ct_options_read(char *const *environment, void (*say)(const char *line));
int __wrap_ct_options_read(char *const *environment, void (*say)(const char *line)) {
    const struct timespec pause = {.tv_nsec = 50000000};
    reads++;
    sem_post(&is_reading);
    nanosleep(&pause, NULL);
    return __real_ct_options_read(environment, say);
}

static void *asks(void *answer) {
    *(int *)answer = ct_tracing_is_on();
    return NULL;
}

// A child that was made meanwhile has nobody who would finish: it gives up once, and reads the
// options itself.
static pid_t child_made_meanwhile(void) {
#ifdef __SANITIZE_THREAD__ // (its children of several threads die at once)
    return -1;
#else
    const pid_t child = fork();
    if (!child) {
        (void)ct_tracing_is_on();
        _exit(ct_tracing_is_on() ? 0 : 1);
    }
    return child;
#endif
}

TEST(who_is_second_waits_for_the_first) {
    pthread_t first;
    int answer_to_first = 0, status = 0;
    assert_int_equal(sem_init(&is_reading, 0, 0), 0);
    assert_int_equal(pthread_create(&first, NULL, asks, &answer_to_first), 0);
    sem_wait(&is_reading);
    const pid_t child = child_made_meanwhile();
    assert_int_equal(ct_tracing_is_on(), 1);
    assert_int_equal(pthread_join(first, NULL), 0);
    assert_int_equal(answer_to_first, 1);
    assert_int_equal(reads, 1);
    if (child >= 0) {
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}
