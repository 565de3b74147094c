// SPDX-License-Identifier: Apache-2.0
// The moments of a traced process: whether tracing is on, the first event, and forks. The exit is
// publish.c's.
//
// Thread rules: every function may be called from any thread at any time, also inside fork, dlopen
// and exit. None of them exits, allocates from the host's heap, changes errno or raises a signal.
// All waits are bounded (base/wait.h).
#ifndef CT_TRACING_H
#define CT_TRACING_H

#include <stdatomic.h>

// Whether tracing is on in this process. The first call reads the CUTRACE_* environment; nothing is
// read, opened or started before it. Off also while `cutrace ctl PID off` is in force.
int ct_tracing_is_on(void);

// Whether it is known that this process is not traced, and never will be: one load and a branch. To
// be asked before any work for an annotation. 0 before ct_tracing_is_on was asked.
enum ct_tracing_decision {
    CT_TRACING_UNDECIDED,
    CT_TRACING_DECIDING,
    CT_TRACING_ON,
    CT_TRACING_OFF
};
extern _Atomic int ct_tracing_decision;
static inline int ct_tracing_is_refused(void) {
    return atomic_load_explicit(&ct_tracing_decision, memory_order_relaxed) == CT_TRACING_OFF;
}

// Opens the trace if it is not open yet. The first published event does this by itself.
void ct_tracing_open(void);

// Whether the trace of this very process (not of its parent) is open.
int ct_tracing_is_open(void);

// The process is about to end: from now on each thread drains what it publishes. No writer thread
// is started any more.
void ct_tracing_begin_exit(void);
int ct_tracing_is_exiting(void);

#endif
