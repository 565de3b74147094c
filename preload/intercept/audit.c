// SPDX-License-Identifier: Apache-2.0
// Counts of compared calls, and a table of the callers of those that one side missed.
#define _GNU_SOURCE
#include "intercept/audit.h"

#include <stdio.h>
#include <string.h>

#include "base/read_file.h"
#include "store/loaded_modules.h"
#include "write/info_table.h"

__thread struct ct_wrapped_call ct_wrapped_call;
static _Atomic uint32_t number; // of the audit that is under way, 0: none
_Atomic int ct_wrapped_calls_are_noted = 1;
static _Atomic uint32_t audits;

enum side { BOTH, ONLY_CUPTI, ONLY_WRAPPERS, SIDES };
static const char *const side_names[SIDES] = {"both", "only_cupti", "only_preload"};
static _Atomic uint32_t counts[SIDES][CT_HOOKS];

// A return address of calls that one side missed. Its library is found when INFO is written: to ask
// the loader here could block the program. Entries are never removed.
#define CALLERS 256
enum { EMPTY, FILLING, VALID };
static struct caller {
    atomic_int state;
    enum side side;
    enum ct_hook_id hook;
    _Atomic uint32_t count;
    const void *address;
} callers[CALLERS];

static uint8_t is_compared[CT_HOOKS];

void ct_audit_add_hook(enum ct_hook_id id) {
    is_compared[id] = 1;
}

void ct_audit_set_on(int on) {
    atomic_store(&number, on ? atomic_fetch_add(&audits, 1) + 1 : 0);
}

static void count_caller(enum side side, enum ct_hook_id id, const void *address) {
    for (int i = 0; i < CALLERS; i++) {
        struct caller *const c = &callers[i];
        int state = EMPTY;
        if (atomic_compare_exchange_strong(&c->state, &state, FILLING)) {
            c->side = side;
            c->hook = id;
            c->address = address;
            atomic_store(&c->count, 1);
            atomic_store_explicit(&c->state, VALID, memory_order_release);
            return;
        }
        if (state == VALID && c->side == side && c->hook == id && c->address == address) {
            atomic_fetch_add_explicit(&c->count, 1, memory_order_relaxed);
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
    count_caller(ONLY_CUPTI, id, caller);
}

__attribute__((noinline, cold)) struct ct_wrapped_call ct_wrapped_call_enter(enum ct_hook_id id,
                                                                             uintptr_t frame) {
    const struct ct_wrapped_call outer = ct_wrapped_call;
    ct_wrapped_call = (struct ct_wrapped_call){frame, id, atomic_load(&number)};
    return outer;
}

// A wrapper in front of another one (an interposer's function lies between them) has made the same
// call. A call that a driver refuses because it has ended, at the exit of the process, is not
// compared: CUPTI ended with it (tests/gpu/results).
__attribute__((noinline, cold)) void ct_wrapped_call_leave(struct ct_wrapped_call outer,
                                                           const void *caller, CUresult result) {
    const struct ct_wrapped_call *const inner = &ct_wrapped_call;
    if (outer.hook == inner->hook && outer.frame > inner->frame) {
        if (!inner->audit)
            outer.audit = 0;
    } else if (is_compared[inner->hook] && inner->audit && result != CUDA_ERROR_DEINITIALIZED &&
               inner->audit == atomic_load(&number)) {
        count(ONLY_WRAPPERS, (enum ct_hook_id)inner->hook);
        count_caller(ONLY_WRAPPERS, (enum ct_hook_id)inner->hook, caller);
    }
    ct_wrapped_call = outer;
}

// ---- INFO -----------------------------------------------------------------------------------

static const char *library_of(const struct caller *c) {
    const struct ct_loaded_module *const m =
        c->address ? ct_loaded_modules_find((uintptr_t)c->address) : NULL;
    return m && m->path ? ct_base_name(m->path) : "unknown";
}

static int is_of(const struct caller *c, enum side side, enum ct_hook_id id) {
    return atomic_load_explicit(&c->state, memory_order_acquire) == VALID && c->side == side &&
           c->hook == id;
}

// The calls from the library of caller n; 0 if a caller before has named it.
static unsigned sum_library(int n, const char *name) {
    unsigned sum = 0;
    for (int i = 0; i < CALLERS; i++) {
        if (!is_of(&callers[i], callers[n].side, callers[n].hook) ||
            strcmp(library_of(&callers[i]), name) != 0)
            continue;
        if (i < n)
            return 0;
        sum += atomic_load_explicit(&callers[i].count, memory_order_relaxed);
    }
    return sum;
}

// "LIBRARY COUNT, LIBRARY COUNT"
static void set_libraries(enum side side, enum ct_hook_id id) {
    char key[128], value[512] = "";
    size_t used = 0;
    for (int i = 0; i < CALLERS; i++) {
        const char *const name = is_of(&callers[i], side, id) ? library_of(&callers[i]) : NULL;
        const unsigned n = name ? sum_library(i, name) : 0;
        if (n && used + strlen(name) + 16 < sizeof value)
            used += (size_t)snprintf(value + used, sizeof value - used, "%s%s %u", used ? ", " : "",
                                     name, n);
    }
    if (!used)
        return;
    snprintf(key, sizeof key, "audit.%s_callers.%s", side_names[side], ct_hook_table[id].symbol);
    ct_info_set(key, "%s", value);
}

// The drain lock is held.
void ct_audit_publish_info(void) {
    for (unsigned side = 0; side < SIDES; side++)
        for (int i = 0; i < CT_HOOKS; i++) {
            const unsigned n = atomic_load_explicit(&counts[side][i], memory_order_relaxed);
            if (!n)
                continue;
            ct_info_set_number(n, "audit.%s.%s", side_names[side], ct_hook_table[i].symbol);
            set_libraries((enum side)side, (enum ct_hook_id)i);
        }
}
