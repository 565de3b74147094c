// SPDX-License-Identifier: Apache-2.0
// Unwinding by libunwind: for frames without a simple rule (signal frames, unusual code), and as
// the reference that the self-check compares with. Holds libunwind back while the process forks.
//
// Invariant: a thread is inside libunwind only between ct_unwind_enter and ct_unwind_leave, which
// mark its ring, or in ct_unwind_init.
#ifndef CT_UNWIND_H
#define CT_UNWIND_H

#include <stdint.h>

struct ct_ring;
struct ct_walk;

// Before the first capture, by one thread: libunwind's own initialization is not safe for several.
void ct_unwind_init(void);

// Puts the frames of the calling thread into walk->n, frame and end, without those of this library.
// `pc` is the return address of the program's innermost frame. If `sp` is not NULL, sp[i] is the
// stack pointer of frame[i] and sp[n] that of the last one again; this needs `slowly`. `slowly`
// uses no cache of whole stacks and is the reference. Returns 0, or -EBUSY while a fork is being
// prepared. Keeps errno.
int ct_unwind_stack(struct ct_ring *ring, struct ct_walk *walk, uintptr_t *sp, uintptr_t pc,
                    int slowly);

// The calling thread may call libunwind until it leaves, if enter returns 0. Nonzero: a fork is
// being prepared, or libunwind is not called any more. Leave in both cases.
int ct_unwind_enter(struct ct_ring *ring);
void ct_unwind_leave(struct ct_ring *ring);

// libunwind, or the loader that it asks, may be locked for ever: no thread of this process calls it
// from now on. And whether that is so: then it is of no use to wait for it.
void ct_unwind_disable(void);
int ct_unwind_is_disabled(void);

// A shared object was unloaded: libunwind forgets what it knows of addresses.
void ct_unwind_forget_code(void);

// While held, no thread is inside libunwind, whose locks a fork would copy. Waits a bounded time;
// returns 0, or -EBUSY if a thread is still inside (then a forked child must not capture stacks).
int ct_unwind_hold(void);
void ct_unwind_release(void);

// Whether a thread is inside libunwind.
int ct_unwind_is_busy(void);

// ---- what can be read -------------------------------------------------------------------------

// Whether the 8 bytes that hold the address can be read. A system call; changes errno.
int ct_unwind_access_is_readable(const void *address);

#endif
