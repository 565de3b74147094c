// SPDX-License-Identifier: Apache-2.0
// Looks the functions up and remembers them.
#define _GNU_SOURCE
#include "intercept/driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include <cutrace/format/hot.h>

#include "intercept/own_image.h"

// ---- the next functions -----------------------------------------------------------------------

#define DRIVER_SONAME "libcuda.so.1"

static _Atomic(void *) next_of[CT_HOOKS];
static _Atomic(void *) resolved_of[CT_HOOKS];

void *ct_next_driver_handle(void) {
    static _Atomic(void *) handle;
    void *h = atomic_load(&handle);
    // Never closed: the driver must stay loaded for as long as its functions are remembered here.
    if (!h && (h = dlopen(DRIVER_SONAME, RTLD_NOLOAD | RTLD_LAZY)))
        atomic_store(&handle, h);
    return h;
}

static void *find_in_driver(const char *symbol) {
    void *const h = ct_next_driver_handle();
    return h ? ct_own_image_look_beyond(h, symbol) : NULL;
}

static void *find_next(const char *symbol) {
    void *const p = ct_own_image_look_beyond(RTLD_NEXT, symbol);
    // A driver that was opened with RTLD_LOCAL is not in the global scope.
    return p ? p : find_in_driver(symbol);
}

void *ct_next_function(enum ct_hook_id id) {
    void *p = atomic_load_explicit(&next_of[id], memory_order_acquire);
    if (!p && (p = find_next(ct_hook_table[id].symbol)))
        atomic_store_explicit(&next_of[id], p, memory_order_release);
    return p;
}

void *ct_next_resolved(enum ct_hook_id id) {
    return atomic_load_explicit(&resolved_of[id], memory_order_acquire);
}

static int is_same_object(const void *a, const void *b) {
    Dl_info of_a, of_b;
    return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

// A second answer from the same object (once an exported symbol, once an internal address) is the
// same function. An answer from another object is a second interposer's, and needs another entry.
int ct_next_set_resolved(enum ct_hook_id id, void *answer) {
    void *current = NULL;
    return atomic_compare_exchange_strong(&resolved_of[id], &current, answer) ||
           current == answer || is_same_object(current, answer);
}

void *ct_next_driver_symbol(const char *symbol) {
    void *const p = find_in_driver(symbol);
    return p ? p : find_next(symbol);
}

// ---- functions for cutrace itself -------------------------------------------------------------

static struct ct_driver driver;
static atomic_int driver_is_known;

// Two threads may look up at once: both find the same functions.
CT_COLD void look_up_driver(void) {
    struct ct_driver found;
#define CT_LOOK_UP(member, symbol, prototype) found.member = ct_next_driver_symbol(#symbol);
    CT_DRIVER_FUNCTIONS(CT_LOOK_UP)
#undef CT_LOOK_UP
    // The driver is not loaded yet: the next call looks again.
    if (!found.ctx_get_current)
        return;
    memcpy(&driver, &found, sizeof driver);
    atomic_store_explicit(&driver_is_known, 1, memory_order_release);
}

const struct ct_driver *ct_driver(void) {
    if (__builtin_expect(!atomic_load_explicit(&driver_is_known, memory_order_acquire), 0))
        look_up_driver();
    return &driver;
}
