// SPDX-License-Identifier: Apache-2.0
// A stretch of code in a host's thread that no signal, no cancellation and no errno may leave or
// enter.
#include "base/signal_guard.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

void ct_signal_guard_enter(struct ct_signal_guard *shield) {
    sigset_t all;
    shield->saved_errno = errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &shield->mask);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &shield->cancel);
    sigpending(&shield->pending);
}

void ct_signal_guard_leave(struct ct_signal_guard *shield) {
    static const int raised[] = {SIGXFSZ, SIGPIPE};
    const struct timespec at_once = {0, 0};
    for (unsigned i = 0; i < sizeof raised / sizeof *raised; i++) {
        sigset_t one;
        if (sigismember(&shield->pending, raised[i]))
            continue; // it was the host's, before
        sigemptyset(&one);
        sigaddset(&one, raised[i]);
        while (sigtimedwait(&one, NULL, &at_once) == -1 && errno == EINTR)
            ;
    }
    pthread_setcancelstate(shield->cancel, NULL);
    pthread_sigmask(SIG_SETMASK, &shield->mask, NULL);
    errno = shield->saved_errno;
}
