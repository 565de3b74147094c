// SPDX-License-Identifier: Apache-2.0
// The entries of the driver rows of hooks.def, their names and the counters of their calls.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>

#include "intercept/hooks.h"

// Calls by thread: a counter that threads share would cost more than all the rest of a hook. The last row is that of
// all threads that came too late for one of their own.
#define ROWS 64
static atomic_uint calls[ROWS][CT_HOOKS];
static atomic_uint rows_taken;
static __thread atomic_uint *row;

static __attribute__((noinline)) atomic_uint *take_row(void) {
    const unsigned i = atomic_fetch_add(&rows_taken, 1);
    return row = calls[i < ROWS - 1 ? i : ROWS - 1];
}

static inline void count_call(enum ct_hook_id id) {
    atomic_uint *const mine = row ? row : take_row();
    if (__builtin_expect(mine == calls[ROWS - 1], 0))
        atomic_fetch_add_explicit(&mine[id], 1, memory_order_relaxed);
    else
        atomic_store_explicit(&mine[id], atomic_load_explicit(&mine[id], memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

static unsigned calls_of(enum ct_hook_id id) {
    unsigned n = 0;
    for (unsigned i = 0; i < ROWS; i++)
        n += atomic_load_explicit(&calls[i][id], memory_order_relaxed);
    return n;
}

// The exported wrappers. A function that the process does not have cannot be reached: the driver is
// older than the caller believes, and says so in the driver's words.
#define CT_HOOK(symbol, base, abi, ptsz, params, args)                           \
    __attribute__((visibility("default"))) CUresult CUDAAPI symbol params {      \
        ct_fn_##symbol *real = (ct_fn_##symbol *)ct_next_function(CT_ID_##symbol);        \
        count_call(CT_ID_##symbol);                                              \
        return real ? ct_on_##symbol(real, CT_ARGS args) : CUDA_ERROR_NOT_FOUND; \
    }
#define CT_HOOK0(symbol, base, abi, ptsz)                                  \
    __attribute__((visibility("default"))) CUresult CUDAAPI symbol(void) { \
        ct_fn_##symbol *real = (ct_fn_##symbol *)ct_next_function(CT_ID_##symbol);  \
        count_call(CT_ID_##symbol);                                        \
        return real ? ct_on_##symbol(real) : CUDA_ERROR_NOT_FOUND;         \
    }
#include "intercept/hooks.def"

// The entries that resolvers hand out; the function behind them is known by then.
#define CT_HOOK(symbol, base, abi, ptsz, params, args)                                      \
    static CUresult CUDAAPI handed_##symbol params {                                        \
        count_call(CT_ID_##symbol);                                                         \
        return ct_on_##symbol((ct_fn_##symbol *)ct_next_resolved(CT_ID_##symbol), CT_ARGS args); \
    }
#define CT_HOOK0(symbol, base, abi, ptsz)                                     \
    static CUresult CUDAAPI handed_##symbol(void) {                           \
        count_call(CT_ID_##symbol);                                           \
        return ct_on_##symbol((ct_fn_##symbol *)ct_next_resolved(CT_ID_##symbol)); \
    }
#include "intercept/hooks.def"

const struct ct_hook ct_hook_table[CT_HOOKS] = {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    {#symbol, #base, abi, ptsz, (void *)symbol, (void *)handed_##symbol},
#include "intercept/hooks.def"
};

// The names' ids, asked of the recorder at the first use of each.
uint32_t ct_hook_table_name(enum ct_hook_id id) {
    static _Atomic uint32_t names[CT_HOOKS];
    uint32_t name = atomic_load_explicit(&names[id], memory_order_relaxed);
    if (!name) {
        name = ct_name_intern(ct_hook_table[id].symbol);
        atomic_store_explicit(&names[id], name, memory_order_relaxed);
    }
    return name;
}

// ---- INFO -----------------------------------------------------------------------------------

static void refresh_info(void) {
    char key[96];
    for (int i = 0; i < CT_HOOKS; i++) {
        const unsigned n = calls_of((enum ct_hook_id)i);
        if (!n)
            continue;
        snprintf(key, sizeof key, "hook.%s.calls", ct_hook_table[i].symbol);
        ct_info_set(key, "%u", n);
    }
    ct_resolve_publish_info();
    ct_torch_publish_info();
}

__attribute__((constructor)) static void register_info(void) {
    (void)ct_info_add_source(refresh_info);
}
