// SPDX-License-Identifier: Apache-2.0
// Call stacks, captured in the calling thread and kept once each.
#include "stacks.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <time.h>

#include "memory.h"
#include "options.h"
#include "recorder.h"
#include "ring.h"
#include "writer.h"

#include <libunwind.h>

// Stack memory for each slot of the table. An entry of 40 frames takes 350 bytes.
#define BYTES_PER_SLOT 128u
#define PROBES 256u // a table so full that more are needed counts as full

// A slot is the upper half of the hash and the entry's place in the arena in units of 8 bytes. The
// place is the stack's id; the arena's first unit is used up when it is made, so that an id is
// never 0.
struct table {
    size_t slots; // a power of two
    struct ct_arena entries;
    _Atomic uint64_t slot[];
};

_Atomic uint64_t ct_stacks_full;

static struct table *_Atomic stack_table;
static _Atomic int off, held;

// ---- the table ------------------------------------------------------------------------------

static void table_free(struct table *t) {
    ct_pages_free(atomic_load(&t->entries.base), t->entries.bytes);
    ct_pages_free(t, sizeof *t + t->slots * sizeof *t->slot);
}

static __attribute__((noinline)) struct table *table_make(void) {
    const size_t memory = CT_NUMBER(STACK_MEMORY) ? CT_NUMBER(STACK_MEMORY) : 32u << 20;
    size_t slots = 1024;
    while (slots < memory / BYTES_PER_SLOT)
        slots *= 2;
    struct table *there = NULL, *fresh = ct_pages(sizeof *fresh + slots * sizeof *fresh->slot);
    if (!fresh)
        return NULL;
    fresh->slots = slots;
    fresh->entries.bytes = memory;
    if (ct_arena_take(&fresh->entries, 8) &&
        atomic_compare_exchange_strong(&stack_table, &there, fresh))
        return fresh;
    table_free(fresh);
    return there;
}

static struct table *table_get(void) {
    struct table *t = atomic_load_explicit(&stack_table, memory_order_acquire);
    return t ? t : table_make();
}

static uint64_t hash_frames(const uintptr_t *frames, size_t n) {
    uint64_t h = n * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < n; i++) {
        h = (h ^ frames[i]) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
    }
    return h;
}

static struct ct_stack_entry *entry_at(struct table *t, uint32_t id) {
    char *base = atomic_load_explicit(&t->entries.base, memory_order_relaxed);
    return (struct ct_stack_entry *)(void *)(base + (size_t)id * 8);
}

struct ct_stack_entry *ct_stack_entry(uint32_t id) {
    struct table *t = atomic_load_explicit(&stack_table, memory_order_acquire);
    return t && id && (size_t)id * 8 < t->entries.bytes ? entry_at(t, id) : NULL;
}

static uint32_t entry_make(struct table *t, uint64_t hash, const uintptr_t *frames, size_t n) {
    struct ct_stack_entry *e = ct_arena_take(&t->entries, sizeof *e + n * sizeof *frames);
    if (!e)
        return 0;
    e->hash = hash;
    e->frames = (uint32_t)n;
    memcpy(e->frame, frames, n * sizeof *frames);
    return (uint32_t)(((char *)e - atomic_load_explicit(&t->entries.base, memory_order_relaxed)) /
                      8);
}

static int entry_is(struct table *t, uint64_t slot, uint64_t hash, const uintptr_t *frames,
                    size_t n) {
    if (slot >> 32 != hash >> 32)
        return 0;
    const struct ct_stack_entry *e = entry_at(t, (uint32_t)slot);
    return e->hash == hash && e->frames == n && !memcmp(e->frame, frames, n * sizeof *frames);
}

uint32_t ct_stack_intern(const uintptr_t *frames, size_t n) {
    struct table *t = table_get();
    if (!t || !n)
        return 0;
    const uint64_t hash = hash_frames(frames, n);
    uint32_t made = 0;
    for (size_t i = 0; i < PROBES; i++) {
        _Atomic uint64_t *at = &t->slot[(hash + i) & (t->slots - 1)];
        uint64_t there = atomic_load_explicit(at, memory_order_acquire);
        if (!there) {
            if (!made && !(made = entry_make(t, hash, frames, n)))
                break;
            // An entry made in vain, because another thread was first with it, stays unused.
            if (atomic_compare_exchange_strong_explicit(at, &there, hash >> 32 << 32 | made,
                                                        memory_order_acq_rel, memory_order_acquire))
                return made;
        }
        if (entry_is(t, there, hash, frames, n))
            return (uint32_t)there;
    }
    atomic_fetch_add_explicit(&ct_stacks_full, 1, memory_order_relaxed);
    return 0;
}

// ---- capture --------------------------------------------------------------------------------

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

// Executable addresses of this library; end is 1 in a program (a unit test), which has no frames of
// ours only.
static _Atomic uintptr_t own_start, own_end;

static __attribute__((noinline)) void find_own(void) {
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    const ElfW(Phdr) *p = (const void *)(__ehdr_start + header->e_phoff);
    uintptr_t base = 0, start = 0, end = 0;
    int program = 0;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        program |= p[i].p_type == PT_INTERP;
        if (p[i].p_type == PT_LOAD && p[i].p_offset == 0)
            base = (uintptr_t)header - p[i].p_vaddr;
        if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X) {
            start = p[i].p_vaddr;
            end = start + p[i].p_memsz;
        }
    }
    atomic_store(&own_start, program ? 0 : base + start);
    atomic_store(&own_end, program ? 1 : base + end);
}

// Removes the frames of this library: the innermost ones, and the wrapper of a runtime function that stands
// between the program and the runtime. Returns how many are left.
static size_t drop_own(uintptr_t *frames, size_t n) {
    const uintptr_t start = atomic_load_explicit(&own_start, memory_order_relaxed);
    const uintptr_t end = atomic_load_explicit(&own_end, memory_order_relaxed);
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        // Linked into a program (end is 1), only this file's two frames are ours.
        if (end == 1 ? i >= 2 : frames[i] - start >= end - start)
            frames[left++] = frames[i];
    return left;
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
// The fast path keeps a cache for each thread, which its thread-specific destructor takes down
// after the sanitizer has taken down the thread.
static inline __attribute__((always_inline)) int unwind(uintptr_t *frames, int most) {
    unw_context_t context;
    unw_cursor_t cursor;
    int n = 0;
    unw_word_t pc;
    unw_getcontext(&context);
    if (unw_init_local(&cursor, &context))
        return 0;
    do {
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) || !pc)
            break;
        frames[n++] = pc;
    } while (n < most && unw_step(&cursor) > 0);
    return n;
}
#define CT_UNWIND(frames, most) unwind(frames, most)
#else
#define CT_UNWIND(frames, most) unw_backtrace((void **)(frames), most)
#endif

static __attribute__((noinline)) uint32_t capture(struct ct_ring *ring) {
    const size_t depth =
        CT_NUMBER(STACK_DEPTH) < CT_MAX_STACK ? CT_NUMBER(STACK_DEPTH) : CT_MAX_STACK;
    const int most = (int)depth + 16; // frames of our own come on top
    const int saved = errno;
    const int n = CT_UNWIND(ring->frames, most);
    errno = saved;
    if (n <= 0)
        return 0;
    const size_t left = drop_own(ring->frames, (size_t)n);
    return ct_stack_intern(ring->frames, left < depth ? left : depth);
}

void ct_stacks_init(void) {
    unw_context_t context;
    unw_cursor_t cursor;
    unw_getcontext(&context);
    (void)unw_init_local(&cursor, &context);
    find_own();
}

uint32_t ct_stack(void) {
    if (!ct_enabled() || CT_NUMBER(STACKS) == CT_STACKS_OF_OFF ||
        atomic_load_explicit(&off, memory_order_relaxed))
        return 0;
    if (!ct_watching_forks()) // sets up the unwinder, too
        return 0;
    struct ct_ring *ring = ct_ring_mine();
    if (!ring || atomic_load_explicit(&ring->unwinding, memory_order_relaxed))
        return 0;
    // Either a fork that is just being prepared sees this thread inside, or this thread sees the
    // fork.
    atomic_store(&ring->unwinding, 1);
    const uint32_t id = atomic_load(&held) ? 0 : capture(ring);
    atomic_store_explicit(&ring->unwinding, 0, memory_order_release);
    return id;
}

// ---- fork -----------------------------------------------------------------------------------

int ct_stacks_busy(void) {
    for (struct ct_ring *r = ct_rings(); r; r = r->next)
        if (atomic_load(&r->unwinding))
            return 1;
    return 0;
}

int ct_stacks_hold(void) {
    const struct timespec pause = {0, 100000};
    atomic_store(&held, 1);
    for (int i = 0; i < 200; i++) {
        if (!ct_stacks_busy())
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

void ct_stacks_release(void) {
    atomic_store(&held, 0);
}

void ct_stacks_off(void) {
    atomic_store(&off, 1);
}
