// SPDX-License-Identifier: Apache-2.0
// The table of call stacks. Entries lie in an arena in the journal; the hash table that finds them
// lies in private memory.
//
// Invariants:
//   S1  The hash table consists of levels, each four times as large as the one before. Levels are
//   added and never move, so a look-up needs no lock.
//   S2  A stack has one bucket in each level, and lies in the first of them that had a free slot
//   when the stack was interned. Slots are never
//       freed. So a look-up ends at the first free slot.
//   S3  A slot is set once, by a compare-exchange (release), after its entry is complete. A thread
//   that loses the exchange leaves its own entry unused.
//   S4  An id is the offset of the entry in the arena in units of 8 bytes. The first unit is
//   allocated when the arena is made, so no id is 0.
// A bucket is one cache line.
#include "store/stack_table.h"

#include <string.h>

#include "base/options.h"
#include <cutrace/format/assert.h>

#include "base/pages.h"
#include "base/wait.h"
#include "store/journal.h"
#include "store/stack_hash.h"

#define BUCKET_SLOTS 8u
#define FIRST_BUCKETS 256u // in level 0
#define MIN_ENTRY_BYTES \
    64u // no level is made that the arena could never fill with entries of this size
#define LEVELS 9

_Atomic uint64_t ct_stack_table_dropped;

// A slot is the upper half of the hash, then the id (S4).
static struct {
    struct ct_arena *_Atomic entries; // &arena once it is initialized
    _Atomic uint64_t *_Atomic level[LEVELS];
    struct ct_arena arena;
    _Atomic int initializing;
} table;

// ---- entries ----------------------------------------------------------------------------------

// Puts the arena into the journal, or into private memory where there is none.
static int init_arena(struct ct_arena *arena) {
    size_t bytes = CT_OPTION_NUMBER(STACK_MEMORY) ? CT_OPTION_NUMBER(STACK_MEMORY) : 32u << 20;
    char *base = ct_journal_reserve_stacks(&bytes);
    arena->grow = base ? ct_journal_grow_stacks : NULL;
    arena->bytes = bytes;
    atomic_store(&arena->used, 0);
    atomic_store(&arena->base, base);
    return ct_arena_alloc(arena, 8) ? 0 : -1; // S4
}

static __attribute__((noinline)) struct ct_arena *init_entries(void) {
    int idle = 0;
    if (atomic_compare_exchange_strong(&table.initializing, &idle, 1)) {
        // Another thread may have initialized the arena since the caller's test.
        if (!atomic_load(&table.entries) && !init_arena(&table.arena))
            atomic_store(&table.entries, &table.arena);
        atomic_store(&table.initializing, 0);
    }
    (void)ct_wait_while(&table.initializing, 1);
    return atomic_load(&table.entries);
}

static struct ct_arena *get_entries(void) {
    struct ct_arena *a = atomic_load_explicit(&table.entries, memory_order_acquire);
    return a ? a : init_entries();
}

static struct ct_stack_entry *entry_at(struct ct_arena *a, uint32_t id) {
    char *base = atomic_load_explicit(&a->base, memory_order_relaxed);
    return (struct ct_stack_entry *)(void *)(base + (size_t)id * 8);
}

struct ct_stack_entry *ct_stack_table_get(uint32_t id) {
    struct ct_arena *a = atomic_load_explicit(&table.entries, memory_order_acquire);
    if (!a || !id || (size_t)id * 8 >= atomic_load_explicit(&a->used, memory_order_relaxed))
        return NULL;
    return entry_at(a, id);
}

int ct_stack_table_read_code_name(uint64_t word, struct ct_code_name *name) {
    const struct ct_stack_entry *e = ct_stack_table_get(ct_frame_word_text(word));
    return e ? ct_code_name_parse(e->frame, e->frames, name) : -1;
}

// The key of a look-up.
struct key {
    uint64_t hash;
    const uint64_t *frames;
    size_t n;
    uint32_t alias_of; // the stack, if there are no frames
    int insert;        // whether to insert it if it is missing
};

static uint32_t create_entry(struct ct_arena *a, const struct key *w) {
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

static inline int slot_matches(struct ct_arena *a, uint64_t slot, const struct key *w) {
    if (slot >> 32 != w->hash >> 32)
        return 0;
    const struct ct_stack_entry *e = entry_at(a, (uint32_t)slot);
    return atomic_load_explicit(&e->hash, memory_order_relaxed) == w->hash && e->frames == w->n &&
           (!w->n || !memcmp(e->frame, w->frames, w->n * sizeof *w->frames));
}

// ---- the table --------------------------------------------------------------------------------

static size_t level_bytes(int level) {
    return ((size_t)FIRST_BUCKETS << 2 * level) * BUCKET_SLOTS * sizeof(uint64_t);
}

static __attribute__((noinline)) _Atomic uint64_t *make_level(struct ct_arena *a, int level) {
    _Atomic uint64_t *there = NULL, *fresh;
    if (level && level_bytes(level - 1) / sizeof(uint64_t) > a->bytes / MIN_ENTRY_BYTES)
        return NULL;
    if (!(fresh = ct_pages_map(level_bytes(level))))
        return NULL;
    if (atomic_compare_exchange_strong(&table.level[level], &there, fresh))
        return fresh;
    ct_pages_unmap((void *)fresh, level_bytes(level));
    return there;
}

static inline _Atomic uint64_t *get_bucket(struct ct_arena *a, int level, uint64_t hash) {
    _Atomic uint64_t *l = atomic_load_explicit(&table.level[level], memory_order_acquire);
    if (!l && !(l = make_level(a, level)))
        return NULL;
    return l + (hash & (((uint64_t)FIRST_BUCKETS << 2 * level) - 1)) * BUCKET_SLOTS;
}

static uint32_t find(const struct key *w) {
    struct ct_arena *a = get_entries();
    _Atomic uint64_t *at;
    uint32_t created = 0;
    CT_ASSERT(w->hash);
    for (int level = 0; a && level < LEVELS && (at = get_bucket(a, level, w->hash)); level++) {
        for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
            uint64_t there = atomic_load_explicit(&at[i], memory_order_acquire);
            if (!there) {
                if (!w->insert)
                    return 0; // S2
                if (!created && !(created = create_entry(a, w)))
                    goto full;
                if (atomic_compare_exchange_strong(&at[i], &there, w->hash >> 32 << 32 | created))
                    return created; // S3
            }
            if (slot_matches(a, there, w))
                return (uint32_t)there;
        }
    }
full:
    atomic_fetch_add_explicit(&ct_stack_table_dropped, w->insert, memory_order_relaxed);
    return 0;
}

uint32_t ct_stack_table_intern(const uint64_t *frames, size_t n) {
    const struct key w = {ct_stack_hash_words(frames, n), frames, n, 0, 1};
    return n ? find(&w) : 0;
}

uint32_t ct_stack_table_find_alias(uint64_t key) {
    const struct key w = {.hash = key};
    const struct ct_stack_entry *e = ct_stack_table_get(find(&w));
    return e ? e->file_id : 0;
}

void ct_stack_table_add_alias(uint64_t key, uint32_t stack) {
    const struct key w = {.hash = key, .alias_of = stack, .insert = 1};
    (void)find(&w);
}

void ct_stack_table_reinit_child(void) {
    for (int level = 0; level < LEVELS; level++) {
        _Atomic uint64_t *l = atomic_exchange(&table.level[level], NULL);
        ct_pages_unmap((void *)l, level_bytes(level));
    }
    struct ct_arena *a = atomic_exchange(&table.entries, NULL);
    if (a && !a->grow) // else the entries are in the journal, which unmaps them
        ct_pages_unmap(atomic_load(&a->base), a->bytes);
    atomic_store(&table.initializing, 0);
}
