// SPDX-License-Identifier: Apache-2.0
// Counters of calls, a row for each thread.
#define _GNU_SOURCE
#include "intercept/call_counts.h"

#include <stdio.h>

#include "write/info_table.h"

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
    char key[96];
    for (int i = 0; i < CT_HOOKS; i++) {
        const unsigned n = sum_rows(i);
        if (!n)
            continue;
        snprintf(key, sizeof key, "hook.%s.calls", ct_hook_table[i].symbol);
        ct_info_set(key, "%u", n);
    }
}
