// SPDX-License-Identifier: Apache-2.0
// Memory of the recorder: its own mappings, never the host's heap. Every function keeps errno and
// may be called in any thread, also in a signal handler.
#ifndef CT_BASE_PAGES_H
#define CT_BASE_PAGES_H

#include <stdatomic.h>
#include <stddef.h>

// ---- pages ------------------------------------------------------------------------------------

// Maps zeroed pages, which cost memory only where they are touched. NULL if there is no memory.
void *ct_pages_map(size_t bytes);
void ct_pages_unmap(void *pages, size_t bytes);

// Gives the memory of the pages back to the kernel; they read as zeros afterwards.
void ct_pages_discard(void *pages, size_t bytes);

// Maps one page that the kernel clears in a forked child, also where fork does not go through the C
// library (clone(2)). NULL if there is no memory, or if the kernel is older than 4.14.
void *ct_pages_wiped_on_fork(void);

// ---- arenas -----------------------------------------------------------------------------------

// An arena: address space that is allocated from front to back and whose parts are never freed.
// Lock-free; any thread.
struct ct_arena {
    char *_Atomic base; // NULL: mapped at the first allocation
    size_t bytes;
    _Atomic size_t used;
    // Makes the arena usable up to `up_to`: 0 or -errno. NULL: all of it is usable.
    int (*grow)(size_t up_to);
};

// Allocates n bytes aligned to 8. NULL when the arena is full.
void *ct_arena_alloc(struct ct_arena *arena, size_t n);

// Copies n bytes into the arena and terminates them. NULL when the arena is full.
char *ct_arena_copy_text(struct ct_arena *arena, const char *text, size_t n);

#endif
