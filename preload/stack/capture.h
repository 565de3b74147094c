// SPDX-License-Identifier: Apache-2.0
// Taking the calling thread's stack (ct_capture_stack of recorder.h).
#ifndef CT_CAPTURE_H
#define CT_CAPTURE_H

#include <stdatomic.h>
#include <stdint.h>

// What a thread remembers of its stacks; belongs to its ring and is handed on with it.
struct ct_capture;

// Id of the native call stack of the caller, without the frames of this library. 0 if unknown (the
// stack table is full, stacks are off).
uint32_t ct_capture_stack(void);

// The same, but only the Python frames where the thread has any: for what happens thousands of times as often.
uint32_t ct_capture_python_stack(void);

// What is called before the first capture of a thread, and again in a child that was made without the C library: it
// returns whether stacks may be taken, after ct_capture_init.
void ct_capture_set_prepare(int (*prepare)(void));

// Sets up the unwinder. Before the first ct_capture_stack, by one thread: its own initialisation is not safe for several.
void ct_capture_init(void);

// Looks for a Python interpreter, if there was none yet and something was loaded since the last look. Takes the loader's
// lock; not between ct_loader_gate_enter and leave.
void ct_capture_rescan(void);

// While held, no thread is inside libunwind, whose locks a fork would copy. Waits a bounded time; returns 0, or -EBUSY
// if a thread is still inside (then a forked child must do without stacks).
int ct_unwind_hold(void);
void ct_unwind_release(void);

// Whether some thread is inside libunwind.
int ct_unwind_is_busy(void);

// A forked child, before it forgets its rings.
void ct_capture_reinit_child(void);

// Switches stacks off in this process from now on.
void ct_capture_disable(void);

// A shared object was unloaded: what is known of its addresses is void.
void ct_capture_forget_code(void);

// Puts what is known of captures into INFO. The writer calls it.
void ct_capture_publish_info(void);

// How captures were answered since the start, for tests and INFO; whole numbers only when no thread captures.
struct ct_capture_counts {
    uint64_t recalled; // a known stack of a known shape
    uint64_t walked;   // by the rules of all its frames
    uint64_t unwound;  // by libunwind as a whole
    uint64_t checks, mismatches;
};
struct ct_capture_counts ct_capture_counts(void);

// Faults that a test plants, to see that the self-check finds them; 0: none.
enum { CT_WALK_FAULT_RETURN_ADDRESS = 1, CT_WALK_FAULT_FRAME_POINTER = 2 };
extern _Atomic int ct_walk_fault;

#endif
