// SPDX-License-Identifier: Apache-2.0
// Guards a stretch of code that runs in a host's thread: no signal handler interrupts it, no
// cancellation ends it, and it leaves errno as it was.
#ifndef CT_BASE_SIGNAL_GUARD_H
#define CT_BASE_SIGNAL_GUARD_H

#include <signal.h>

struct ct_signal_guard {
    sigset_t mask, pending;
    int cancel_state, saved_errno;
};

// Blocks all signals, because a handler could jump out of a lock or call CUDA, and cancellation,
// because write(2) is a cancellation point.
void ct_signal_guard_enter(struct ct_signal_guard *guard);

// Removes a SIGXFSZ or SIGPIPE that our own writing raised, then restores what enter saved.
void ct_signal_guard_leave(struct ct_signal_guard *guard);

#endif
