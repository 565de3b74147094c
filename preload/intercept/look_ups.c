// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "intercept/look_ups.h"

#include <stdatomic.h>
#include <stdint.h>

#include "base/maps.h"
#include "base/print.h"
#include "store/loaded_modules.h"
#include "write/info_table.h"

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
        const int n = m && m->path ? ct_name_list_find(&modules, ct_maps_base_name(m->path)) : -1;
        if (n < 0)
            continue; // the survey reads the table again, if the loader has loaded it since
        ct_print(key, sizeof key, "look_ups.resolver.%d", n);
        ct_info_set(key, "%s", modules.name[n]);
    }
    if (atomic_load(&not_noted))
        ct_info_set("look_ups.resolver_callers", "more than %d", CALLERS);
}

void ct_look_ups_publish_info(void) {
    char key[96];
    for (int way = 0; way < WAYS; way++) {
        ct_print(key, sizeof key, "look_ups.%s", names[way]);
        ct_info_set(key, "%u", atomic_load_explicit(&seen[way], memory_order_relaxed));
        ct_print(key, sizeof key, "look_ups.%s.wrapped", names[way]);
        ct_info_set(key, "%u", atomic_load_explicit(&wrapped[way], memory_order_relaxed));
    }
    publish_callers();
}
