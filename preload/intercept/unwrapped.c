// SPDX-License-Identifier: Apache-2.0
// A lock-free hash table of names, filled once and never emptied.
#define _GNU_SOURCE
#include "intercept/unwrapped.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "write/info_table.h"

#define NAME_BYTES 56
#define NAMES 1024 // the runtime asks for about 440
#define PROBES 64

enum { EMPTY, FILLING, VALID };

static struct unwrapped {
    atomic_int state;
    int version;
    atomic_uint count;
    char name[NAME_BYTES];
} unwrapped[NAMES];

static unsigned hash(const char *name, size_t length, int version) {
    unsigned h = (unsigned)version;
    for (size_t i = 0; i < length; i++)
        h = h * 31 + (unsigned char)name[i];
    return h;
}

void ct_unwrapped_count(const char *name, int version) {
    const size_t length = strnlen(name, NAME_BYTES);
    if (length == 0 || length == NAME_BYTES)
        return;
    const unsigned h = hash(name, length, version);
    for (unsigned i = 0; i < PROBES; i++) {
        struct unwrapped *const u = &unwrapped[(h + i) % NAMES];
        int state = EMPTY;
        if (atomic_compare_exchange_strong(&u->state, &state, FILLING)) {
            memcpy(u->name, name, length);
            u->version = version;
            atomic_store_explicit(&u->count, 1, memory_order_relaxed);
            atomic_store_explicit(&u->state, VALID, memory_order_release);
            return;
        }
        if (state == VALID && u->version == version && !strcmp(u->name, name)) {
            atomic_fetch_add_explicit(&u->count, 1, memory_order_relaxed);
            return;
        }
    }
}

void ct_unwrapped_publish_info(void) {
    char key[128];
    for (int i = 0; i < NAMES; i++) {
        struct unwrapped *const u = &unwrapped[i];
        if (atomic_load_explicit(&u->state, memory_order_acquire) != VALID)
            continue;
        snprintf(key, sizeof key, "unwrapped.%s.%d", u->name, u->version);
        ct_info_set(key, "%u", atomic_load_explicit(&u->count, memory_order_relaxed));
    }
}
