// SPDX-License-Identifier: Apache-2.0
// The drain lock: one word, taken by compare-and-swap. Not a mutex of the host's C library, because
// a forked child must be able to reset it, and because hooks only try it.
#include "write/drain_lock.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include <cutrace/format/assert.h>

static _Atomic int locked;

int ct_drain_lock_try(struct ct_signal_guard *guard) {
    int open = 0;
    // Look first: the guard below costs five system calls.
    if (atomic_load_explicit(&locked, memory_order_relaxed))
        return -EBUSY;
    ct_signal_guard_enter(guard);
    if (atomic_compare_exchange_strong_explicit(&locked, &open, 1, memory_order_acquire,
                                                memory_order_relaxed))
        return 0;
    ct_signal_guard_leave(guard);
    return -EBUSY;
}

int ct_drain_lock_wait(struct ct_signal_guard *guard, unsigned ms) {
    const struct timespec pause = {0, 200000};
    for (unsigned i = 0; i <= ms * 5; i++) {
        if (!ct_drain_lock_try(guard))
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

void ct_drain_lock_release(struct ct_signal_guard *guard) {
    CT_ASSERT(ct_drain_lock_is_held());
    atomic_store_explicit(&locked, 0, memory_order_release);
    ct_signal_guard_leave(guard);
}

int ct_drain_lock_is_held(void) {
    return atomic_load_explicit(&locked, memory_order_relaxed);
}

void ct_drain_lock_reinit_child(void) {
    atomic_store(&locked, 0);
}
