// SPDX-License-Identifier: Apache-2.0
// Counts of compared calls, and a table of the libraries that made those that one side missed.
#define _GNU_SOURCE
#include "intercept/audit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "intercept/wrapped_call.h"
#include "write/info_table.h"

__thread struct ct_wrapped_call ct_wrapped_call;
_Atomic uint32_t ct_audit_number;
static _Atomic uint32_t audits;

enum side { BOTH, ONLY_CUPTI, ONLY_WRAPPERS, SIDES };
static const char *const side_names[SIDES] = {"both", "only_cupti", "only_preload"};
static _Atomic uint32_t counts[SIDES][CT_HOOKS];

// A library that made calls which one side missed. Entries are never removed.
#define LIBRARIES 128
#define NAME_BYTES 64
enum { EMPTY, FILLING, VALID };
static struct library {
    atomic_int state;
    enum side side;
    enum ct_hook_id hook;
    _Atomic uint32_t count;
    char name[NAME_BYTES];
} libraries[LIBRARIES];

static uint8_t is_compared[CT_HOOKS];

void ct_audit_add_hook(enum ct_hook_id id) {
    is_compared[id] = 1;
}

void ct_audit_set_on(int on) {
    atomic_store(&ct_audit_number, on ? atomic_fetch_add(&audits, 1) + 1 : 0);
}

static const char *library_of(const void *caller) {
    Dl_info info;
    if (!caller || !dladdr(caller, &info) || !info.dli_fname)
        return "unknown";
    const char *const slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

static void count_library(enum side side, enum ct_hook_id id, const char *name) {
    for (int i = 0; i < LIBRARIES; i++) {
        struct library *const l = &libraries[i];
        int state = EMPTY;
        if (atomic_compare_exchange_strong(&l->state, &state, FILLING)) {
            l->side = side;
            l->hook = id;
            snprintf(l->name, sizeof l->name, "%s", name);
            atomic_store(&l->count, 1);
            atomic_store_explicit(&l->state, VALID, memory_order_release);
            return;
        }
        if (state == VALID && l->side == side && l->hook == id &&
            !strncmp(l->name, name, NAME_BYTES - 1)) {
            atomic_fetch_add(&l->count, 1);
            return;
        }
    }
}

static void count(enum side side, enum ct_hook_id id) {
    atomic_fetch_add_explicit(&counts[side][id], 1, memory_order_relaxed);
}

void ct_audit_note_both(enum ct_hook_id id) {
    if (ct_wrapped_call.audit)
        count(BOTH, id);
    ct_wrapped_call.audit = 0;
}

void ct_audit_note_only_cupti(enum ct_hook_id id, const void *caller) {
    count(ONLY_CUPTI, id);
    count_library(ONLY_CUPTI, id, library_of(caller));
}

// A wrapper in front of another one (an interposer's function lies between them) has made the same
// call.
void ct_audit_wrapper_left(struct ct_wrapped_call *outer, const void *caller) {
    const struct ct_wrapped_call *const inner = &ct_wrapped_call;
    if (outer->hook == inner->hook && outer->frame > inner->frame) {
        if (!inner->audit)
            outer->audit = 0;
        return;
    }
    if (is_compared[inner->hook] && inner->audit && inner->audit == atomic_load(&ct_audit_number)) {
        count(ONLY_WRAPPERS, (enum ct_hook_id)inner->hook);
        count_library(ONLY_WRAPPERS, (enum ct_hook_id)inner->hook, library_of(caller));
    }
}

// ---- INFO -----------------------------------------------------------------------------------

// "LIBRARY COUNT, LIBRARY COUNT"
static void set_libraries(enum side side, enum ct_hook_id id) {
    char key[128], value[512];
    size_t used = 0;
    for (int i = 0; i < LIBRARIES; i++) {
        struct library *const l = &libraries[i];
        if (atomic_load_explicit(&l->state, memory_order_acquire) != VALID || l->side != side ||
            l->hook != id || used + NAME_BYTES + 16 > sizeof value)
            continue;
        used += (size_t)snprintf(value + used, sizeof value - used, "%s%s %u", used ? ", " : "",
                                 l->name, atomic_load(&l->count));
    }
    if (!used)
        return;
    snprintf(key, sizeof key, "audit.%s_callers.%s", side_names[side], ct_hook_table[id].symbol);
    ct_info_set(key, "%s", value);
}

void ct_audit_publish_info(void) {
    char key[128];
    for (unsigned side = 0; side < SIDES; side++)
        for (int i = 0; i < CT_HOOKS; i++) {
            const unsigned n = atomic_load_explicit(&counts[side][i], memory_order_relaxed);
            if (!n)
                continue;
            snprintf(key, sizeof key, "audit.%s.%s", side_names[side], ct_hook_table[i].symbol);
            ct_info_set(key, "%u", n);
            set_libraries((enum side)side, (enum ct_hook_id)i);
        }
}
