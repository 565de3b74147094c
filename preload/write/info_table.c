// SPDX-License-Identifier: Apache-2.0
// The table of INFO: an array of pairs and a hash table over their keys, under a spin lock.
#include "write/info_table.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "base/pages.h"
#include "base/print.h"
#include "write/open_chunk.h"

#define PAIRS 8192u // a power of two
#define VALUE_BYTES 4096u

struct pair {
    const char *key;
    char *value;
    uint32_t bytes, room;
    uint32_t changed;
};

// In the order of first use.
static struct pair pairs[PAIRS];
// Index + 1 into pairs, by the hash of the key.
static uint16_t slots[PAIRS];
static uint32_t pairs_used, pairs_changed;
static _Atomic int wants_all; // the next chunk must have all pairs
static struct ct_arena texts = {.bytes = 4u << 20};
static _Atomic int lock;
#define SOURCES 4u
static void (*_Atomic sources[SOURCES])(void);

// Gives up after a while: the owner may be the code that this signal handler interrupted, or a
// thread that the fork left behind. Returns 0, or -EBUSY.
static int enter_lock(void) {
    for (int i = 0; i < 2000; i++) {
        int open = 0;
        if (atomic_compare_exchange_weak_explicit(&lock, &open, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return 0;
        if (i > 100)
            sched_yield();
    }
    return -EBUSY;
}

static void leave_lock(void) {
    atomic_store_explicit(&lock, 0, memory_order_release);
}

static struct pair *find_or_add(const char *key) {
    uint32_t h = 2166136261u;
    for (const char *k = key; *k; k++)
        h = (h ^ (unsigned char)*k) * 16777619u;
    uint32_t i = h % PAIRS;
    for (; slots[i]; i = (i + 1) % PAIRS)
        if (!strcmp(pairs[slots[i] - 1].key, key))
            return &pairs[slots[i] - 1];
    struct pair *p = &pairs[pairs_used];
    if (pairs_used >= PAIRS / 4 * 3 || !(p->key = ct_arena_copy_text(&texts, key, strlen(key))))
        return NULL;
    slots[i] = (uint16_t)++pairs_used;
    return p;
}

static void set_value(struct pair *p, const char *value, size_t n) {
    if (p->value && p->bytes == n && !memcmp(p->value, value, n))
        return;
    if (n > p->room || !p->value) {
        const size_t room = n < 24 ? 24 : n * 2;
        char *fresh = ct_arena_alloc(&texts, room);
        if (!fresh)
            return;
        p->value = fresh;
        p->room = (uint32_t)room;
    }
    memcpy(p->value, value, n);
    p->bytes = (uint32_t)n;
    if (!p->changed)
        pairs_changed++;
    p->changed = 1;
}

void ct_info_set(const char *key, const char *format, ...) {
    char value[VALUE_BYTES];
    const int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    const size_t n = ct_print_va(value, sizeof value, format, arguments);
    va_end(arguments);
    if (!enter_lock()) {
        struct pair *p = find_or_add(key);
        if (p)
            set_value(p, value, n);
        leave_lock();
    }
    errno = saved;
}

void ct_info_set_number(uint64_t number, const char *key_format, ...) {
    char key[160];
    va_list arguments;
    va_start(arguments, key_format);
    ct_print_va(key, sizeof key, key_format, arguments);
    va_end(arguments);
    ct_info_set(key, "%lu", number);
}

int ct_info_add_source(void (*refresh)(void)) {
    for (unsigned i = 0; i < SOURCES; i++) {
        void (*registered)(void) = NULL;
        if (atomic_compare_exchange_strong(&sources[i], &registered, refresh) ||
            registered == refresh)
            return 0;
    }
    return -ENOSPC;
}

void ct_info_refresh(void) {
    for (unsigned i = 0; i < SOURCES; i++) {
        void (*refresh)(void) = atomic_load(&sources[i]);
        if (refresh)
            refresh();
    }
}

// Under the lock.
static void mark_all(void) {
    pairs_changed = 0;
    for (uint32_t i = 0; i < pairs_used; i++) {
        pairs[i].changed = pairs[i].value != NULL;
        pairs_changed += pairs[i].changed;
    }
}

void ct_info_put_changed(void) {
    if (enter_lock())
        return;
    if (atomic_exchange(&wants_all, 0))
        mark_all();
    for (uint32_t i = 0; pairs_changed && i < pairs_used; i++) {
        struct pair *p = &pairs[i];
        static uint8_t pair[VALUE_BYTES + 512];
        struct ct_out o = {pair, pair + sizeof pair, 0};
        if (!p->changed || ct_open_chunk_blocks_left() < CT_OPEN_CHUNK_RESERVE_BLOCKS)
            continue;
        ct_put_text(&o, p->key, strlen(p->key));
        ct_put_text(&o, p->value, p->bytes);
        if (!o.bad && ct_open_chunk_define(CT_SECTION_INFO, pair, (size_t)(o.at - pair)))
            break;
        p->changed = 0;
        pairs_changed--;
    }
    leave_lock();
}

void ct_info_mark_all_changed(void) {
    atomic_store(&wants_all, 1);
}

void ct_info_reinit_child(void) {
    atomic_store(&lock, 0);
    ct_info_mark_all_changed();
}

// ---- lists of names ---------------------------------------------------------------------------

int ct_name_list_find(struct ct_name_list *list, const char *name) {
    for (unsigned i = 0; i < list->count; i++)
        if (!strncmp(list->name[i], name, CT_NAME_LIST_BYTES - 1))
            return (int)i;
    if (list->count == CT_NAME_LIST_NAMES)
        return -1;
    ct_print(list->name[list->count], CT_NAME_LIST_BYTES, "%s", name);
    return (int)list->count++;
}
