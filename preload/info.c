// SPDX-License-Identifier: Apache-2.0
// Facts for the INFO section: a bounded table of keys and values.
#include "info.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "memory.h"
#include "recorder.h"
#include "text.h"

#define PAIRS 8192u // a power of two
#define VALUE_BYTES 4096u

struct pair {
    const char *key;
    char *value;
    uint32_t bytes, room;
    uint32_t changed;
};

static struct pair pairs[PAIRS];
static uint32_t pairs_used, pairs_changed;
static struct ct_arena texts = {.bytes = 4u << 20};
static _Atomic int lock;
static void (*_Atomic source)(void);

// A spin lock that gives up: its owner may be a thread that this one interrupted, or that a fork
// left behind.
static int lock_take(void) {
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

static void lock_leave(void) {
    atomic_store_explicit(&lock, 0, memory_order_release);
}

static struct pair *find(const char *key) {
    uint32_t h = 2166136261u;
    for (const char *k = key; *k; k++)
        h = (h ^ (unsigned char)*k) * 16777619u;
    for (uint32_t i = h % PAIRS;; i = (i + 1) % PAIRS) {
        struct pair *p = &pairs[i];
        if (!p->key) {
            if (pairs_used >= PAIRS / 4 * 3 || !(p->key = ct_arena_text(&texts, key, strlen(key))))
                return NULL;
            pairs_used++;
            return p;
        }
        if (!strcmp(p->key, key))
            return p;
    }
}

static void set(struct pair *p, const char *value, size_t n) {
    if (p->value && p->bytes == n && !memcmp(p->value, value, n))
        return;
    if (n > p->room || !p->value) {
        const size_t room = n < 24 ? 24 : n * 2;
        char *fresh = ct_arena_take(&texts, room);
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

void ct_info(const char *key, const char *format, ...) {
    char value[VALUE_BYTES];
    const int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    const size_t n = ct_vprint(value, sizeof value, format, arguments);
    va_end(arguments);
    if (!lock_take()) {
        struct pair *p = find(key);
        if (p)
            set(p, value, n);
        lock_leave();
    }
    errno = saved;
}

void ct_set_info_source(void (*refresh)(void)) {
    atomic_store(&source, refresh);
}

void ct_info_refresh(void) {
    void (*refresh)(void) = atomic_load(&source);
    if (refresh)
        refresh();
}

void ct_info_write(struct ct_out *out) {
    if (lock_take())
        return;
    if (pairs_changed) {
        uint8_t *length_at = ct_section_begin(out, CT_SECTION_INFO);
        for (uint32_t i = 0; i < PAIRS; i++) {
            struct pair *p = &pairs[i];
            if (!p->changed || out->end - out->at < (ptrdiff_t)(strlen(p->key) + p->bytes + 32))
                continue;
            ct_put_text(out, p->key, strlen(p->key));
            ct_put_text(out, p->value, p->bytes);
            p->changed = 0;
            pairs_changed--;
        }
        ct_section_end(out, length_at);
    }
    lock_leave();
}

void ct_info_forked(void) {
    atomic_store(&lock, 0);
    pairs_changed = 0;
    for (uint32_t i = 0; i < PAIRS; i++) {
        pairs[i].changed = pairs[i].key && pairs[i].value;
        pairs_changed += pairs[i].changed;
    }
}
