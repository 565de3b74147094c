// SPDX-License-Identifier: Apache-2.0
// The gate between the threads that read Python's objects and the thread that finalizes Python.
//
// G1. A thread reads Python's objects only between ct_python_gate_enter and ct_python_gate_leave,
//     while in_python is set in its ring.
// G2. enter sets in_python, then loads the state. The closing thread stores CT_PYTHON_CLOSED, then
//     loads in_python of all rings. So either the thread that enters sees the closed gate, or the
//     closing thread sees that it is inside, and waits. The closing thread's memory barrier orders
//     both pairs (membarrier): enter needs none.
// G3. Once the gate is closed, only the closing thread enters. Python destroys frames of other
//     threads only then.
#ifndef CT_PYTHON_GATE_H
#define CT_PYTHON_GATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "stack/python_find.h"
#include "store/ring.h"

// The interpreter that is not numbered in hashes.
extern __attribute__((visibility("hidden"))) uintptr_t ct_python_main_interpreter;

// How often Python was finalized. Interpreters and versions of code are numbered anew in each run.
extern __attribute__((visibility("hidden"))) uint64_t ct_python_runs;

// Where the state is not CT_PYTHON_READY: what is to be done first. Returns whether the thread may
// enter.
int ct_python_gate_enter_slow(void);

// Whether Python's objects may be read until leave. Leave in both cases.
static inline int ct_python_gate_enter(struct ct_ring *ring) {
    atomic_store_explicit(&ring->in_python, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); // G2
    return __builtin_expect(atomic_load_explicit(&ct_python_state, memory_order_acquire) ==
                                CT_PYTHON_READY,
                            1) ||
           ct_python_gate_enter_slow();
}

static inline void ct_python_gate_leave(struct ct_ring *ring) {
    atomic_store_explicit(&ring->in_python, 0, memory_order_release);
}

#endif
