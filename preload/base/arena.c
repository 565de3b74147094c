// SPDX-License-Identifier: Apache-2.0
// An arena: address space that is allocated from front to back and whose parts are never freed.
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include <cutrace/format/assert.h>

#include "base/pages.h"

static char *map_once(struct ct_arena *arena) {
    char *base = atomic_load_explicit(&arena->base, memory_order_acquire);
    if (base)
        return base;
    char *fresh = ct_pages_map(arena->bytes);
    if (!fresh)
        return NULL;
    if (atomic_compare_exchange_strong(&arena->base, &base, fresh))
        return fresh;
    ct_pages_unmap(fresh, arena->bytes); // another thread mapped it first
    return base;
}

void *ct_arena_alloc(struct ct_arena *arena, size_t n) {
    char *base = map_once(arena);
    n = (n + 7) & ~(size_t)7;
    if (!base || n > arena->bytes)
        return NULL;
    CT_ASSERT((uintptr_t)base % 8 == 0);
    // The test before the addition keeps `used` from wrapping, however often a full arena is asked.
    if (atomic_load_explicit(&arena->used, memory_order_relaxed) > arena->bytes - n)
        return NULL;
    const size_t at = atomic_fetch_add_explicit(&arena->used, n, memory_order_relaxed);
    CT_ASSERT(at % 8 == 0);
    if (at > arena->bytes - n || (arena->grow && arena->grow(at + n)))
        return NULL;
    return base + at;
}

char *ct_arena_copy_text(struct ct_arena *arena, const char *text, size_t n) {
    char *copy = ct_arena_alloc(arena, n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = 0;
    }
    return copy;
}
