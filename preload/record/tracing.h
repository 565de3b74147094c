// SPDX-License-Identifier: Apache-2.0
// The moments of a traced process: whether tracing is on, the first event, and forks. The exit is
// publish.c's.
//
// Thread rules: every function may be called from any thread at any time, also inside fork, dlopen
// and exit. None of them exits, allocates from the host's heap, changes errno or raises a signal.
// All waits are bounded (base/wait.h).
#ifndef CT_TRACING_H
#define CT_TRACING_H

// Whether tracing is on in this process. The first call reads the CUTRACE_* environment; nothing is
// read, opened or started before it. Off also while `cutrace ctl PID off` is in force.
int ct_tracing_is_on(void);

// Opens the trace if it is not open yet. The first published event does this by itself.
void ct_tracing_open(void);

// Whether the trace of this very process (not of its parent) is open.
int ct_tracing_is_open(void);

// Whether the writer thread runs. Without it, the threads that publish drain the rings themselves.
int ct_tracing_has_writer(void);

// The process is about to end: from now on each thread drains what it publishes. No writer thread
// is started any more.
void ct_tracing_begin_exit(void);
int ct_tracing_is_exiting(void);

#endif
