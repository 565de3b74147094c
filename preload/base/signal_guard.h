// SPDX-License-Identifier: Apache-2.0
// A stretch of code in a host's thread that no signal, no cancellation and no errno may leave or
// enter.
#ifndef CT_SHIELD_H
#define CT_SHIELD_H

#include <signal.h>

struct ct_signal_guard {
    sigset_t mask, pending;
    int cancel, saved_errno;
};

// Blocks all signals (a handler could jump out of a lock or call back into CUDA) and cancellation
// (write(2) is a cancellation point). down() takes away a SIGXFSZ or SIGPIPE that our own writing
// raised.
void ct_signal_guard_enter(struct ct_signal_guard *shield);
void ct_signal_guard_leave(struct ct_signal_guard *shield);

#endif
