// SPDX-License-Identifier: Apache-2.0
// A device's memory at a moment as a table: what is tracked and by whom, untracked, others, free.
#ifndef CT_MEMORY_TABLE_H
#define CT_MEMORY_TABLE_H

#include "analyze/account.h"
#include "analyze/capacity.h"
#include "analyze/live_at.h"
#include "answer/view.h"

enum { CT_MEMORY_TABLE_COMPONENTS = 6 };

struct ct_memory_table {
    int device;       // index
    const char *when; // "at that moment"
    const struct ct_capacity *capacity;
    const struct ct_live_totals *live; // with its split
    const struct ct_torch_pool_totals *pool;
    const struct ct_account *account; // of these totals
    unsigned components;              // most rows for them; the others are one row
    int without_parts;                // of what is untracked; and without others that hold nothing
};

// Prints the line of the device and its capacity, then the rows.
void ct_memory_table_print(struct ct_view *v, const struct ct_memory_table *t);

#endif
