// SPDX-License-Identifier: Apache-2.0
// Memory of the recorder: its own mappings, never the host's heap. Every function keeps errno and
// may be called in any thread, also in a signal handler.
#ifndef CT_BASE_PAGES_H
#define CT_BASE_PAGES_H

#include <stddef.h>

// Maps zeroed pages, which cost memory only where they are touched. NULL if there is no memory.
void *ct_pages_map(size_t bytes);
void ct_pages_unmap(void *pages, size_t bytes);

// Gives the memory of the pages back to the kernel; they read as zeros afterwards.
void ct_pages_discard(void *pages, size_t bytes);

// Maps one page that the kernel clears in a forked child, also where fork does not go through the C
// library (clone(2)). NULL if there is no memory, or if the kernel is older than 4.14.
void *ct_pages_wiped_on_fork(void);

#endif
