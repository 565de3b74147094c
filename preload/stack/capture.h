// SPDX-License-Identifier: Apache-2.0
// Capturing the calling thread's stack, and the moments at which what is known of stacks becomes
// void. The functions that capture may be called from any thread at any time, also in a signal
// handler. They do not block, allocate from the host's heap, change errno or raise a signal.
#ifndef CT_CAPTURE_H
#define CT_CAPTURE_H

#include <stdint.h>

// The id of the calling thread's stack, without the frames of this library: native and Python
// frames, as the option CUTRACE_STACKS asks. 0 if it is not known: the table of stacks is full,
// stacks are off, or the call interrupts another capture of the thread.
uint32_t ct_capture_stack(void);

// The same, but only the Python frames where the thread has any. For what happens thousands of
// times as often.
uint32_t ct_capture_python_stack(void);

// The return address of the innermost frame that is not of this library, NULL if it is not known.
// Not for hot paths.
const void *ct_capture_caller(void);

// Called when a thread captures for the first time, and again in a child that was made without the
// C library. `prepare` returns whether stacks may be captured; then ct_capture_init was called.
void ct_capture_set_prepare(int (*prepare)(void));

// Before the first capture, by one thread: libunwind's own initialization is not safe for several.
void ct_capture_init(void);

// Looks for a Python interpreter, if there was none yet and something was loaded since the last
// scan. Takes the loader's lock; not between ct_loader_gate_enter and leave. Called at the start,
// by the writer thread, and by a capture that has met new code.
void ct_capture_rescan(void);

// A shared object was unloaded: what is known of its addresses is void.
void ct_capture_forget_code(void);

// A forked child, where only the calling thread runs. Before it forgets its rings.
void ct_capture_reinit_child(void);

// Switches stacks off in this process from now on.
void ct_capture_disable(void);

// Publishes the counts of captures as INFO. The writer calls it.
void ct_capture_publish_info(void);

// How captures were answered since the start, for tests and INFO; exact only while no thread
// captures.
struct ct_capture_counts {
    uint64_t recalled; // a known stack of a known shape
    uint64_t walked;   // by the rules of all its frames
    uint64_t unwound;  // by libunwind as a whole
    uint64_t checks, mismatches;
};
struct ct_capture_counts ct_capture_counts(void);

#endif
