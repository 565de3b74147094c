// SPDX-License-Identifier: Apache-2.0
// The C library of the program itself, where this library was loaded beside another one (dlmopen).
#ifndef CT_BASE_BASE_LIBC_H
#define CT_BASE_BASE_LIBC_H

#include <stddef.h>

// Whether this library uses the program's C library. Where it does not, it must not store
// thread-specific data: keys are counted by each C library, and the values of all of them lie at
// the same place of a thread (struct pthread). A key of ours would be the program's key, too, whose
// value and whose destructor are then called with ours.
int ct_base_libc_is_ours(void);

// Calls these around a fork that goes through the program's C library, as pthread_atfork does for
// the one that this library uses. Does nothing where that is the same.
void ct_base_libc_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

// Tells the program's C library that the process has threads. To be called before the first thread
// is created; does nothing where this library uses the program's C library itself.
//
// The loader's lock is a mutex that belongs to the program's C library, whichever namespace a
// caller of the loader is in. Since glibc 2.35 a C library takes a mutex without an atomic
// instruction until its own pthread_create has run (SINGLE_THREAD_P in
// sysdeps/nptl/lowlevellock.h and sysdeps/unix/sysv/linux/single-thread.h). A thread that another
// namespace's C library creates does not change that, and the main thread and the new one then
// both take the loader's lock: 19 of 400 programs that opened their plugin with dlmopen hung.
// Therefore a thread that does nothing is created by the program's C library, too.
//
// The caller has blocked the signals, which that thread inherits.
void ct_base_libc_end_single_thread(void);

// Creates a detached thread of this library, after that. Where stack_bytes are too small, because
// the program has much thread-local storage, it gets a stack of the usual size. Returns 0, or an
// error number.
int ct_base_libc_create_thread(void *(*run)(void *), size_t stack_bytes);

#endif
