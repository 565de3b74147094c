// SPDX-License-Identifier: Apache-2.0
// A gate between this library's use of the dynamic loader and fork.
#include "base/loader_gate.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include <cutrace/format/assert.h>

// The number of threads inside, or CLOSED.
enum { CLOSED = -1, EMPTY = 0 };
static _Atomic int gate;

int ct_loader_gate_enter(void) {
    int inside = atomic_load(&gate);
    while (inside != CLOSED)
        if (atomic_compare_exchange_weak(&gate, &inside, inside + 1))
            return 0;
    return -EBUSY;
}

void ct_loader_gate_leave(void) {
    const int inside = atomic_fetch_sub(&gate, 1);
    CT_ASSERT(inside > EMPTY);
    (void)inside;
}

int ct_loader_gate_is_busy(void) {
    return atomic_load(&gate) > EMPTY;
}

int ct_loader_gate_close(void) {
    const struct timespec pause = {0, 100000};
    for (int i = 0; i < 500; i++) {
        int empty = EMPTY;
        if (atomic_compare_exchange_strong(&gate, &empty, CLOSED))
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

void ct_loader_gate_open(void) {
    int closed = CLOSED;
    (void)atomic_compare_exchange_strong(&gate, &closed, EMPTY);
}

void ct_loader_gate_reinit_child(void) {
    atomic_store(&gate, EMPTY);
}
