// SPDX-License-Identifier: Apache-2.0
// How often each driver hook was called.
#ifndef CT_CALL_COUNTS_H
#define CT_CALL_COUNTS_H

#include <stdatomic.h>

#include "intercept/hook_table.h"

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

#endif
