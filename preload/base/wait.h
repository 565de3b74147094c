// SPDX-License-Identifier: Apache-2.0
// Waiting for another thread of the host's that does once what all need.
#ifndef CT_WAIT_H
#define CT_WAIT_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"

#define CT_WAIT_NS UINT64_C(1000000000)

// While `state` is what the other thread sets for that time: microseconds, or some 20 ms of work where the trace is opened. On a
// busy machine it takes as much longer as there are others, so counting looks would not do. A fork may have left that thread
// behind, and a signal's handler may have interrupted it, so there is an end. Returns whether it is still at it.
static inline int ct_wait_while(const _Atomic int *state, int busy) {
    if (atomic_load(state) != busy)
        return 0;
    const uint64_t until = ct_clock_read() + CT_WAIT_NS;
    while (atomic_load(state) == busy && ct_clock_read() < until)
        sched_yield();
    return atomic_load(state) == busy;
}

#endif
