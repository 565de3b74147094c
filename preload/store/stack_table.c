// SPDX-License-Identifier: Apache-2.0
// Call stacks, kept once each, in the journal.
//
// The table that finds them is in memory of the process alone. It is made of levels, each four times as large as the
// one before, so that it is as large as the number of stacks asks for and never moves. A stack belongs into one bucket
// of each level, and lies in the first of them that had room when it came: who finds room in a bucket need not look
// further. A bucket is a line of the cache.
#include "store/stack_table.h"

#include <string.h>

#include "base/options.h"
#include "base/pages.h"
#include "base/wait.h"
#include "store/journal.h"

#define BUCKET 8u          // slots
#define FIRST_BUCKETS 256u // of level 0
#define BYTES_PER_SLOT 64u // at least, for an entry; levels that could never be filled are not made
#define LEVELS 9

_Atomic uint64_t ct_stack_table_dropped;

// A slot is the upper half of the hash and the entry's place in the arena in units of 8 bytes. The place is the stack's
// id; the arena's first unit is used up when it is made, so that an id is never 0.
static struct {
    struct ct_arena *_Atomic entries;
    _Atomic uint64_t *_Atomic level[LEVELS];
    struct ct_arena arena;
    _Atomic int making;
} table;

// ---- hash -------------------------------------------------------------------------------------

static void hash_step(struct ct_stack_hash *h, const uint64_t *f) {
    ct_stack_hash_step(h, f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]);
}

uint64_t ct_stack_hash(const uint64_t *frames, size_t n) {
    struct ct_stack_hash h = ct_stack_hash_begin(n);
    size_t i = 0;
    for (; i + CT_STACK_HASH_STEP <= n; i += CT_STACK_HASH_STEP)
        hash_step(&h, frames + i);
    if (i < n) {
        uint64_t rest[CT_STACK_HASH_STEP] = {0};
        memcpy(rest, frames + i, (n - i) * sizeof *frames);
        hash_step(&h, rest);
    }
    return ct_stack_hash_end(&h);
}

// ---- entries ----------------------------------------------------------------------------------

// Where entries lie: in the journal, or without one in memory of the process.
static int stacks_arena(struct ct_arena *arena) {
    size_t bytes = CT_OPTION_NUMBER(STACK_MEMORY) ? CT_OPTION_NUMBER(STACK_MEMORY) : 32u << 20;
    char *base = ct_journal_reserve_stacks(&bytes);
    arena->grow = base ? ct_journal_grow_stacks : NULL;
    arena->bytes = bytes;
    atomic_store(&arena->used, 0);
    atomic_store(&arena->base, base);
    return ct_arena_alloc(arena, 8) ? 0 : -1;
}

static __attribute__((noinline)) struct ct_arena *entries_make(void) {
    int nobody = 0;
    if (atomic_compare_exchange_strong(&table.making, &nobody, 1)) {
        // Who was here since we looked made it, and it may be in use already.
        if (!atomic_load(&table.entries) && !stacks_arena(&table.arena))
            atomic_store(&table.entries, &table.arena);
        atomic_store(&table.making, 0);
    }
    (void)ct_wait_while(&table.making, 1);
    return atomic_load(&table.entries);
}

static struct ct_arena *entries(void) {
    struct ct_arena *a = atomic_load_explicit(&table.entries, memory_order_acquire);
    return a ? a : entries_make();
}

static struct ct_stack_entry *entry_at(struct ct_arena *a, uint32_t id) {
    char *base = atomic_load_explicit(&a->base, memory_order_relaxed);
    return (struct ct_stack_entry *)(void *)(base + (size_t)id * 8);
}

struct ct_stack_entry *ct_stack_entry(uint32_t id) {
    struct ct_arena *a = atomic_load_explicit(&table.entries, memory_order_acquire);
    return a && id && (size_t)id * 8 < atomic_load_explicit(&a->used, memory_order_relaxed)
               ? entry_at(a, id)
               : NULL;
}

// What is looked for; a new one is made only if `make`.
struct wanted {
    uint64_t hash;
    const uint64_t *frames;
    size_t n;
    uint32_t alias_of; // if there are no frames
    int make;
};

static uint32_t entry_make(struct ct_arena *a, const struct wanted *w) {
    struct ct_stack_entry *e = ct_arena_alloc(a, sizeof *e + w->n * sizeof *w->frames);
    if (!e)
        return 0;
    e->frames = (uint32_t)w->n;
    e->file_id = w->alias_of;
    if (w->n)
        memcpy(e->frame, w->frames, w->n * sizeof *w->frames);
    atomic_store_explicit(&e->hash, w->hash, memory_order_release);
    return (uint32_t)(((char *)e - atomic_load_explicit(&a->base, memory_order_relaxed)) / 8);
}

static inline int entry_is(struct ct_arena *a, uint64_t slot, const struct wanted *w) {
    if (slot >> 32 != w->hash >> 32)
        return 0;
    const struct ct_stack_entry *e = entry_at(a, (uint32_t)slot);
    return atomic_load_explicit(&e->hash, memory_order_relaxed) == w->hash && e->frames == w->n &&
           (!w->n || !memcmp(e->frame, w->frames, w->n * sizeof *w->frames));
}

// ---- the table --------------------------------------------------------------------------------

static size_t level_bytes(int level) {
    return ((size_t)FIRST_BUCKETS << 2 * level) * BUCKET * sizeof(uint64_t);
}

static __attribute__((noinline)) _Atomic uint64_t *level_make(struct ct_arena *a, int level) {
    _Atomic uint64_t *there = NULL, *fresh;
    if (level && level_bytes(level - 1) / sizeof(uint64_t) > a->bytes / BYTES_PER_SLOT)
        return NULL;
    if (!(fresh = ct_pages_map(level_bytes(level))))
        return NULL;
    if (atomic_compare_exchange_strong(&table.level[level], &there, fresh))
        return fresh;
    ct_pages_unmap((void *)fresh, level_bytes(level));
    return there;
}

static inline _Atomic uint64_t *bucket(struct ct_arena *a, int level, uint64_t hash) {
    _Atomic uint64_t *l = atomic_load_explicit(&table.level[level], memory_order_acquire);
    if (!l && !(l = level_make(a, level)))
        return NULL;
    return l + (hash & (((uint64_t)FIRST_BUCKETS << 2 * level) - 1)) * BUCKET;
}

static uint32_t find(const struct wanted *w) {
    struct ct_arena *a = entries();
    _Atomic uint64_t *at;
    uint32_t made = 0;
    for (int level = 0; a && level < LEVELS && (at = bucket(a, level, w->hash)); level++) {
        for (unsigned i = 0; i < BUCKET; i++) {
            uint64_t there = atomic_load_explicit(&at[i], memory_order_acquire);
            if (!there) {
                if (!w->make)
                    return 0;
                if (!made && !(made = entry_make(a, w)))
                    goto full;
                // An entry made in vain, because another thread was first with it, stays unused.
                if (atomic_compare_exchange_strong(&at[i], &there, w->hash >> 32 << 32 | made))
                    return made;
            }
            if (entry_is(a, there, w))
                return (uint32_t)there;
        }
    }
full:
    atomic_fetch_add_explicit(&ct_stack_table_dropped, w->make, memory_order_relaxed);
    return 0;
}

uint32_t ct_stack_table_intern(const uint64_t *frames, size_t n) {
    const struct wanted w = {ct_stack_hash(frames, n), frames, n, 0, 1};
    return n ? find(&w) : 0;
}

uint32_t ct_stack_table_find_alias(uint64_t key) {
    const struct wanted w = {.hash = key};
    const struct ct_stack_entry *e = ct_stack_entry(find(&w));
    return e ? e->file_id : 0;
}

void ct_stack_table_add_alias(uint64_t key, uint32_t stack) {
    const struct wanted w = {.hash = key, .alias_of = stack, .make = 1};
    (void)find(&w);
}

void ct_stack_table_reinit_child(void) {
    for (int level = 0; level < LEVELS; level++) {
        _Atomic uint64_t *l = atomic_exchange(&table.level[level], NULL);
        ct_pages_unmap((void *)l, level_bytes(level));
    }
    struct ct_arena *a = atomic_exchange(&table.entries, NULL);
    if (a && !a->grow) // else it is the parent's journal
        ct_pages_unmap(atomic_load(&a->base), a->bytes);
    atomic_store(&table.making, 0);
}
