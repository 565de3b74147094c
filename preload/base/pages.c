// SPDX-License-Identifier: Apache-2.0
// Memory of the recorder: its own mappings, never the host's heap.
#define _GNU_SOURCE
#include "base/pages.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cutrace/format/assert.h>

// ---- pages ------------------------------------------------------------------------------------

void *ct_pages_map(size_t bytes) {
    const int saved = errno;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        p = NULL;
    else // a huge page would make a sparse table cost 2 MiB for each entry
        (void)madvise(p, bytes, MADV_NOHUGEPAGE);
    errno = saved;
    return p;
}

void ct_pages_unmap(void *pages, size_t bytes) {
    const int saved = errno;
    if (pages)
        (void)munmap(pages, bytes);
    errno = saved;
}

void ct_pages_discard(void *pages, size_t bytes) {
    const int saved = errno;
    (void)madvise(pages, bytes, MADV_DONTNEED);
    errno = saved;
}

void *ct_pages_wiped_on_fork(void) {
    const int saved = errno;
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = ct_pages_map(bytes);
    if (page && madvise(page, bytes, MADV_WIPEONFORK)) {
        ct_pages_unmap(page, bytes);
        page = NULL;
    }
    errno = saved;
    return page;
}

// ---- arenas -----------------------------------------------------------------------------------

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
