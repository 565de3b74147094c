// SPDX-License-Identifier: Apache-2.0
// The wrappers of all driver rows but the resolvers, whose wrappers stand in resolve.c; and how
// often each was called.
#define _GNU_SOURCE
#include "intercept/wrappers.h"

#include "write/info_table.h"

// ---- counts of calls --------------------------------------------------------------------------

#define SHARED_ROW (CT_CALL_COUNT_ROWS - 1)

atomic_uint ct_call_counts[CT_CALL_COUNT_ROWS][CT_HOOKS];
__thread atomic_uint *ct_call_counts_own;
static atomic_uint rows_assigned;

__attribute__((noinline)) atomic_uint *ct_call_counts_assign(void) {
    const unsigned i = atomic_fetch_add(&rows_assigned, 1);
    return ct_call_counts_own = ct_call_counts[i < SHARED_ROW ? i : SHARED_ROW];
}

static unsigned sum_rows(int id) {
    unsigned n = 0;
    for (unsigned i = 0; i < CT_CALL_COUNT_ROWS; i++)
        n += atomic_load_explicit(&ct_call_counts[i][id], memory_order_relaxed);
    return n;
}

void ct_call_counts_publish_info(void) {
    for (int i = 0; i < CT_HOOKS; i++) {
        const unsigned n = sum_rows(i);
        if (n)
            ct_info_set_number(n, "hook.%s.calls", ct_hook_table[i].symbol);
    }
}

// ---- wrappers ---------------------------------------------------------------------------------

#define CT_RESOLVER_HOOK(symbol, base, abi, ptsz, params, args)
#define CT_HOOK(symbol, base, abi, ptsz, params, args) \
    CT_DEFINE_WRAPPERS(symbol, params, (real, CT_ARGS args))
#define CT_OOM_HOOK(symbol, base, abi, ptsz, params, args) \
    CT_DEFINE_LAUNCH_WRAPPERS(symbol, params, args)
#define CT_HOOK0(symbol, base, abi, ptsz) CT_DEFINE_WRAPPERS(symbol, (void), (real))
#include "intercept/hooks.def"
