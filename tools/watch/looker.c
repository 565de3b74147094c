// SPDX-License-Identifier: Apache-2.0
#include "watch/looker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/now.h"

enum { LOOK_STACK = 8 << 20 }; // a main thread's usual one: trees of call sites are walked

void ct_looker_lock(struct ct_looker *l) {
    pthread_mutex_lock(&l->lock);
}

void ct_looker_unlock(struct ct_looker *l) {
    pthread_mutex_unlock(&l->lock);
}

void ct_looker_tell(struct ct_looker *l) {
    const uint64_t one = 1;
    (void)!write(l->looked, &one, sizeof one);
}

int ct_looker_listen(struct ct_looker *l) {
    uint64_t count;
    (void)!read(l->looked, &count, sizeof count);
    ct_looker_lock(l);
    const int has_ended = l->has_ended;
    ct_looker_unlock(l);
    return has_ended;
}

void ct_looker_look_now(struct ct_looker *l) {
    l->next_ns = 0;
    pthread_cond_broadcast(&l->wake);
}

// With the lock, until something was told or the time has come.
static void wait_until(struct ct_looker *l, uint64_t at_ns) {
    const struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                                .tv_nsec = (long)(at_ns % 1000000000)};
    (void)pthread_cond_timedwait(&l->wake, &l->lock, &at);
}

// Waits for the next look. Returns 0 if there is none.
static int wait_for_next(struct ct_looker *l) {
    ct_looker_lock(l);
    while (!l->is_stopping && (l->is_paused || ct_now_ns(CLOCK_MONOTONIC) < l->next_ns))
        if (l->is_paused)
            pthread_cond_wait(&l->wake, &l->lock);
        else
            wait_until(l, l->next_ns);
    l->next_ns = ct_now_ns(CLOCK_MONOTONIC) + l->interval_ns;
    const int goes_on = !l->is_stopping;
    ct_looker_unlock(l);
    return goes_on;
}

static void *look_on(void *user) {
    struct ct_looker *l = user;
    int code = 0;
    while (!code && wait_for_next(l)) {
        code = l->look(l->user);
        ct_looker_tell(l);
    }
    ct_looker_lock(l);
    l->has_ended = 1;
    l->code = code;
    pthread_cond_broadcast(&l->wake);
    ct_looker_unlock(l);
    ct_looker_tell(l);
    return NULL;
}

static void free_all(struct ct_looker *l) {
    close(l->looked);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
}

int ct_looker_begin(struct ct_looker *l, int (*look)(void *user), void *user,
                    unsigned interval_ms) {
    pthread_attr_t attributes;
    pthread_condattr_t clock;
    *l = (struct ct_looker){
        .look = look, .user = user, .interval_ns = interval_ms * UINT64_C(1000000)};
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake, &clock);
    pthread_condattr_destroy(&clock);
    l->looked = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, LOOK_STACK);
    const int error = pthread_create(&l->thread, &attributes, look_on, l);
    pthread_attr_destroy(&attributes);
    if (error)
        free_all(l);
    return error;
}

int ct_looker_end(struct ct_looker *l, uint64_t most_ns) {
    const uint64_t at_ns = ct_now_ns(CLOCK_MONOTONIC) + most_ns;
    ct_looker_lock(l);
    l->is_stopping = 1;
    pthread_cond_broadcast(&l->wake);
    while (!l->has_ended && ct_now_ns(CLOCK_MONOTONIC) < at_ns)
        wait_until(l, at_ns);
    const int has_ended = l->has_ended;
    ct_looker_unlock(l);
    if (!has_ended)
        return 0;
    pthread_join(l->thread, NULL);
    free_all(l);
    return 1;
}
