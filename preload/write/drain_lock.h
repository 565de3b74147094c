// SPDX-License-Identifier: Apache-2.0
// The drain lock. Its holder is the drainer: the one thread that takes events out of the rings and
// writes them to the trace. What other headers call "drainer only" or "drain lock held" belongs to
// the holder.
//
// Any thread may try; hooks never wait. While a thread holds the lock, signals and cancellation are
// blocked in it.
#ifndef CT_WRITE_DRAIN_LOCK_H
#define CT_WRITE_DRAIN_LOCK_H

#include "base/signal_guard.h"

// Locks without waiting. Returns 0, or -EBUSY.
int ct_drain_lock_try(struct ct_signal_guard *guard);

// Waits up to `ms` milliseconds for the lock: for the writer thread, exit and fork. Returns 0, or
// -EBUSY.
int ct_drain_lock_wait(struct ct_signal_guard *guard, unsigned ms);

void ct_drain_lock_release(struct ct_signal_guard *guard);

// Whether any thread holds the lock: for assertions.
int ct_drain_lock_is_held(void);

// Unlocks in a forked child: the holder may be a thread that the child does not have.
void ct_drain_lock_reinit_child(void);

#endif
