// SPDX-License-Identifier: Apache-2.0
// The C library of the program itself, where this library was loaded beside another one (dlmopen).
#ifndef CT_BASE_BASE_LIBC_H
#define CT_BASE_BASE_LIBC_H

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

#endif
