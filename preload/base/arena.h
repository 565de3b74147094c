// SPDX-License-Identifier: Apache-2.0
// An arena: address space that is allocated from front to back and whose parts are never freed.
// Lock-free; any thread.
#ifndef CT_BASE_ARENA_H
#define CT_BASE_ARENA_H

#include <stdatomic.h>
#include <stddef.h>

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
