// SPDX-License-Identifier: Apache-2.0
// The driver rows of hooks.def as ids, function types, static facts, and prototypes of their
// bodies. The bottom of this room: it knows no address of a function.
#ifndef CT_HOOK_TABLE_H
#define CT_HOOK_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "intercept/cuda_api.h"
#include "store/name_table.h"

// Parameters or arguments of a row without their parentheses.
#define CT_ARGS(...) __VA_ARGS__

enum ct_hook_id {
#define CT_HOOK(symbol, base, abi, ptsz, params, args) CT_ID_##symbol,
#include "intercept/hooks.def"
    CT_HOOKS
};

#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    typedef CUresult CUDAAPI ct_fn_##symbol params;
#include "intercept/hooks.def"

// The first four columns of a row, as hooks.def explains them.
struct ct_hook {
    const char *symbol, *base;
    int abi, ptsz;
};
extern const struct ct_hook ct_hook_table[CT_HOOKS];

// Name id (ct_name_intern) of a row's symbol.
uint32_t ct_hook_table_name(enum ct_hook_id id);

// Name id of `symbol`, which the recorder is asked for once: `*cached` is 0 until then.
static inline uint32_t ct_hook_table_cached_name(_Atomic uint32_t *cached, const char *symbol) {
    uint32_t name = atomic_load_explicit(cached, memory_order_relaxed);
    if (!name) {
        name = ct_name_intern(symbol);
        atomic_store_explicit(cached, name, memory_order_relaxed);
    }
    return name;
}

// ---- bodies -----------------------------------------------------------------------------------

// The body of each driver row, ct_on_SYMBOL(real, parameters...): what cutrace does around the real
// function. bodies.c generates most; the others are defined by subject (mempool.c, graph.c, ...).
// Their prototypes derive from hooks.def, so that a body which differs from its row does not
// compile.

// The code of a body that enters the scope of a recorded call (hook_scope.h): by its address a
// frame on the stack is known for that.
#define CT_BODY __attribute__((noinline, section("ct_bodies")))

#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    CT_BODY CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params);
#define CT_HOOK0(symbol, base, abi, ptsz) CT_BODY CUresult ct_on_##symbol(ct_fn_##symbol *real);
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args) \
    CUresult ct_on_##symbol(ct_fn_##symbol *real, CT_ARGS params);
#include "intercept/hooks.def"

#endif
