// SPDX-License-Identifier: Apache-2.0
// A memory barrier that one thread makes all running threads of the process execute (membarrier(2),
// Linux 4.14).
#ifndef CT_BASE_MEMBARRIER_H
#define CT_BASE_MEMBARRIER_H

// Once in a process, and again in a forked child. Returns 0, or -errno where the kernel has no such
// barrier or a filter forbids it. Keeps errno.
int ct_membarrier_register(void);

// Returns 0: each thread's stores before the barrier are visible now. -errno: no barrier was
// executed. Keeps errno.
int ct_membarrier_all_threads(void);

#endif
