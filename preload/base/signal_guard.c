// SPDX-License-Identifier: Apache-2.0
// Guards a stretch of code that runs in a host's thread.
#include "base/signal_guard.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

void ct_signal_guard_enter(struct ct_signal_guard *guard) {
    sigset_t all;
    guard->saved_errno = errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &guard->mask);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard->cancel_state);
    sigpending(&guard->pending);
}

void ct_signal_guard_leave(struct ct_signal_guard *guard) {
    static const int raised_by_write[] = {SIGXFSZ, SIGPIPE};
    const struct timespec no_wait = {0, 0};
    for (unsigned i = 0; i < sizeof raised_by_write / sizeof *raised_by_write; i++) {
        sigset_t one;
        if (sigismember(&guard->pending, raised_by_write[i]))
            continue; // the host's own: it was pending at enter
        sigemptyset(&one);
        sigaddset(&one, raised_by_write[i]);
        while (sigtimedwait(&one, NULL, &no_wait) == -1 && errno == EINTR)
            ;
    }
    pthread_setcancelstate(guard->cancel_state, NULL);
    pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
    errno = guard->saved_errno;
}
