// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "intercept/look_ups.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/print.h"
#include "base/read_file.h"
#include "intercept/hook_table.h"
#include "store/loaded_modules.h"
#include "write/info_table.h"

// ---- look-ups ---------------------------------------------------------------------------------

static const char *const names[] = {"dlsym", "cuGetProcAddress", "cudaGetDriverEntryPoint"};
enum { WAYS = sizeof names / sizeof *names };
static atomic_uint seen[WAYS], wrapped[WAYS];

// Entries are written once. When all are in use, further callers are not noted.
#define CALLERS 64
static _Atomic uintptr_t callers[CALLERS];
static atomic_uint not_noted;

void ct_look_ups_count(enum ct_look_up_way way) {
    atomic_fetch_add_explicit(&seen[way], 1, memory_order_relaxed);
}

void ct_look_ups_count_wrapped(enum ct_look_up_way way) {
    atomic_fetch_add_explicit(&wrapped[way], 1, memory_order_relaxed);
}

void ct_look_ups_note_resolver(const void *caller) {
    for (int i = 0; i < CALLERS; i++) {
        uintptr_t empty = 0;
        if (atomic_load(&callers[i]) == (uintptr_t)caller ||
            atomic_compare_exchange_strong(&callers[i], &empty, (uintptr_t)caller) ||
            empty == (uintptr_t)caller)
            return;
    }
    atomic_store(&not_noted, 1);
}

static void publish_callers(void) {
    static struct ct_name_list modules;
    char key[64];
    for (int i = 0; i < CALLERS && atomic_load(&callers[i]); i++) {
        const struct ct_loaded_module *const m = ct_loaded_modules_find(atomic_load(&callers[i]));
        const int n = m && m->path ? ct_name_list_find(&modules, ct_base_name(m->path)) : -1;
        if (n < 0)
            continue; // the survey reads the table again, if the loader has loaded it since
        ct_print(key, sizeof key, "look_ups.resolver.%d", n);
        ct_info_set(key, "%s", modules.name[n]);
    }
    if (atomic_load(&not_noted))
        ct_info_set("look_ups.resolver_callers", "more than %d", CALLERS);
}

void ct_look_ups_publish_info(void) {
    for (int way = 0; way < WAYS; way++) {
        ct_info_set_number(atomic_load_explicit(&seen[way], memory_order_relaxed), "look_ups.%s",
                           names[way]);
        ct_info_set_number(atomic_load_explicit(&wrapped[way], memory_order_relaxed),
                           "look_ups.%s.wrapped", names[way]);
    }
    publish_callers();
}

// ---- answers without a wrapper ----------------------------------------------------------------

// A lock-free hash table of names, filled once and never emptied.

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
static atomic_uint dropped; // look-ups of names for which no entry was left

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
    atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
}

// Whether the name is that of a function with hooks, of which this look-up got none.
static int is_hooked(const char *name) {
    for (int i = 0; i < CT_HOOKS; i++)
        if (!strcmp(ct_hook_table[i].base, name) || !strcmp(ct_hook_table[i].symbol, name))
            return 1;
    return 0;
}

void ct_unwrapped_publish_info(void) {
    for (int i = 0; i < NAMES; i++) {
        struct unwrapped *const u = &unwrapped[i];
        if (atomic_load_explicit(&u->state, memory_order_acquire) != VALID)
            continue;
        const unsigned count = atomic_load_explicit(&u->count, memory_order_relaxed);
        ct_info_set_number(count, "unwrapped.%s.%d", u->name, u->version);
        if (is_hooked(u->name))
            ct_info_set_number(count, "look_ups.hooked_passed.%s.%d", u->name, u->version);
    }
    if (atomic_load(&dropped))
        ct_info_set("look_ups.names_dropped", "%u", atomic_load(&dropped));
}
