// SPDX-License-Identifier: Apache-2.0
// Waits until another thread finishes one-time initialization.
#ifndef CT_BASE_WAIT_H
#define CT_BASE_WAIT_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"

#define CT_WAIT_NS UINT64_C(1000000000)

// Yields while `state` has the value `busy`, for at most CT_WAIT_NS. Returns 1 if it still has that
// value: a fork may have left the initializing thread behind, or the caller may be a signal handler
// that interrupted that thread.
//
// Initialization takes microseconds, or about 20 ms where it opens the trace. The limit is a time
// and not a number of yields, because on a busy machine a yield takes as long as all the other
// threads run.
static inline int ct_wait_while(const _Atomic int *state, int busy) {
    if (atomic_load(state) != busy)
        return 0;
    const uint64_t deadline = ct_clock_read() + CT_WAIT_NS;
    while (atomic_load(state) == busy && ct_clock_read() < deadline)
        sched_yield();
    return atomic_load(state) == busy;
}

#endif
