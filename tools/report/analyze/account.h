// SPDX-License-Identifier: Apache-2.0
// What fills a device at a moment: rows that add up to its capacity, to the byte. What is tracked
// is by component (symbols/phases.h): of the stack that allocated it first.
#ifndef CT_ACCOUNT_H
#define CT_ACCOUNT_H

#include "analyze/live_at.h"
#include "symbols/phases.h"

// The components first: a row of an enum ct_component has its number.
enum ct_account_row_kind {
    CT_ACCOUNT_COMPONENTS_END = CT_COMPONENTS - 1,
#define CT_ACCOUNT(ID, name, title) CT_ACCOUNT_##ID,
#include "analyze/account.def"
    CT_ACCOUNT_ROWS,
    CT_ACCOUNT_TRACKED_ROWS = CT_ACCOUNT_MEMPOOL_IDLE + 1, // the first ones: of what is tracked
};

struct ct_account_row {
    uint64_t bytes;
    uint64_t count; // of allocations and blocks; of POOL_IDLE free blocks; else 0
    int inferred;   // computed from what was known before or after that moment
};

struct ct_account {
    // The device's memory was read: the rows add up to `capacity`. Otherwise they add up to
    // `tracked`, and the rows from IN_FLIGHT on are 0.
    int known;
    uint64_t capacity, tracked;
    int split_known;  // the rows of this process's untracked memory have none of other processes
    int with_host;    // the device has the host's memory
    uint64_t managed; // by this process; in no row, because it migrates
    struct ct_account_row row[CT_ACCOUNT_ROWS];
};

// Divides the totals of one device with the split of that moment.
void ct_account_make(struct ct_account *a, struct ct_phases *phases,
                     const struct ct_live_totals *totals);
// Adds the rows of what is tracked of another process's account.
void ct_account_add_tracked(struct ct_account *a, const struct ct_account *of);
// Sets the other rows, where the device's memory is known; `m` has the whole of what is tracked.
void ct_account_complete(struct ct_account *a, const struct ct_breakdown *m);
// Moves what is of other processes to those that were traced, too, up to `bytes`: what these hold
// on the device.
void ct_account_set_siblings(struct ct_account *a, uint64_t bytes);
// The bytes that may be of these.
uint64_t ct_account_others(const struct ct_account *a);
uint64_t ct_account_sum(const struct ct_account *a);
const char *ct_account_row_name(enum ct_account_row_kind kind);
const char *ct_account_row_title(enum ct_account_row_kind kind);

#endif
