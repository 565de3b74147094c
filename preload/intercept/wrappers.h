// SPDX-License-Identifier: Apache-2.0
// The two entries of a driver row, through which a program calls its body. The exported wrapper has
// the symbol's name; it goes on to the next definition in the process, so that interposers behind
// this library stay in the chain. The resolved entry, ct_resolved_SYMBOL, is what dlsym and
// cuGetProcAddress hand out; it goes on to the very pointer that the real resolver returned.
#ifndef CT_WRAPPERS_H
#define CT_WRAPPERS_H

#include <stdatomic.h>

#include "intercept/audit.h"
#include "intercept/driver.h"
#include "intercept/hook_table.h"

// ---- counts of calls --------------------------------------------------------------------------

// How often each driver hook was called.

// Each thread counts in a row of its own: a counter that threads share would cost more than all the
// rest of a hook. The last row is shared by the threads that came when no other row was left.
#define CT_CALL_COUNT_ROWS 64
extern atomic_uint ct_call_counts[CT_CALL_COUNT_ROWS][CT_HOOKS];
extern __thread atomic_uint *ct_call_counts_own; // NULL until the first call

// Gives the thread its row.
atomic_uint *ct_call_counts_assign(void);

static inline void ct_call_counts_add(enum ct_hook_id id) {
    atomic_uint *const own = ct_call_counts_own ? ct_call_counts_own : ct_call_counts_assign();
    if (__builtin_expect(own == ct_call_counts[CT_CALL_COUNT_ROWS - 1], 0))
        atomic_fetch_add_explicit(&own[id], 1, memory_order_relaxed);
    else
        atomic_store_explicit(&own[id], atomic_load_explicit(&own[id], memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

// Publishes the counts that are not 0 (INFO hook.SYMBOL.calls).
void ct_call_counts_publish_info(void);

// ---- wrappers ---------------------------------------------------------------------------------

#define CT_HOOK(symbol, base, abi, ptsz, params, args) ct_fn_##symbol ct_resolved_##symbol;
#include "intercept/hooks.def"

// Defines both entries of a row; `body_args` is what the body is called with, `real` included. If
// the process has no next definition, the driver is older than the caller believes: the exported
// wrapper returns the driver's own error for an unknown function.
#define CT_DEFINE_WRAPPERS(symbol, params, body_args)                                    \
    __attribute__((visibility("default"))) CUresult CUDAAPI symbol params {              \
        ct_fn_##symbol *const real = (ct_fn_##symbol *)ct_next_function(CT_ID_##symbol); \
        ct_call_counts_add(CT_ID_##symbol);                                              \
        if (!real)                                                                       \
            return CUDA_ERROR_NOT_FOUND;                                                 \
        CT_RETURN_WRAPPED(CT_ID_##symbol, ct_on_##symbol body_args);                     \
    }                                                                                    \
    CUresult CUDAAPI ct_resolved_##symbol params {                                       \
        ct_fn_##symbol *const real = (ct_fn_##symbol *)ct_next_resolved(CT_ID_##symbol); \
        ct_call_counts_add(CT_ID_##symbol);                                              \
        CT_RETURN_WRAPPED(CT_ID_##symbol, ct_on_##symbol body_args);                     \
    }

// The same entries for rows that are called at every launch of a kernel, where a nanosecond counts.
// The exported wrapper has no branch for a function that is still to be found, for which it would
// have to save all arguments: what it calls first finds the function, and takes itself out.
#define CT_DEFINE_LAUNCH_WRAPPERS(symbol, params, args)                                          \
    static ct_fn_##symbol find_##symbol;                                                         \
    static _Atomic(ct_fn_##symbol *) next_##symbol = find_##symbol;                              \
    static CUresult CUDAAPI find_##symbol params {                                               \
        ct_fn_##symbol *const real = (ct_fn_##symbol *)ct_next_function(CT_ID_##symbol);         \
        if (real)                                                                                \
            atomic_store_explicit(&next_##symbol, real, memory_order_release);                   \
        return real ? real args : CUDA_ERROR_NOT_FOUND;                                          \
    }                                                                                            \
    __attribute__((visibility("default"))) CUresult CUDAAPI symbol params {                      \
        ct_fn_##symbol *const real = atomic_load_explicit(&next_##symbol, memory_order_acquire); \
        ct_call_counts_add(CT_ID_##symbol);                                                      \
        return ct_on_##symbol(real, CT_ARGS args);                                               \
    }                                                                                            \
    CUresult CUDAAPI ct_resolved_##symbol params {                                               \
        ct_fn_##symbol *const real = (ct_fn_##symbol *)ct_next_resolved(CT_ID_##symbol);         \
        ct_call_counts_add(CT_ID_##symbol);                                                      \
        return ct_on_##symbol(real, CT_ARGS args);                                               \
    }

#endif
