// SPDX-License-Identifier: Apache-2.0
// Memory of the recorder: its own mappings, never the host's heap.
#ifndef CT_MEMORY_H
#define CT_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Zeroed pages that cost memory only where they are touched, or NULL. Keeps errno.
void *ct_pages_map(size_t bytes);
void ct_pages_unmap(void *pages, size_t bytes);

// They cost nothing until they are touched again, and are zeroed then. Keeps errno.
void ct_pages_discard(void *pages, size_t bytes);

// Address space that is handed out front to back and never given back piecewise.
struct ct_arena {
    char *_Atomic base;
    size_t bytes;
    _Atomic size_t used;
    int (*grow)(size_t up_to); // makes more of it usable; NULL: all of it is
};

// n bytes aligned to 8, or NULL when the arena is full. Lock-free; maps the arena at its first use.
void *ct_arena_alloc(struct ct_arena *arena, size_t n);

// A NUL-terminated copy of n bytes in the arena, or NULL.
char *ct_arena_copy_text(struct ct_arena *arena, const char *text, size_t n);

#endif
