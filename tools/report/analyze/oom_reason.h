// SPDX-License-Identifier: Apache-2.0
// Why an allocation was refused, as far as the trace tells.
#ifndef CT_VERDICT_H
#define CT_VERDICT_H

#include "analyze/scan.h"

enum ct_oom_reason_kind {
    CT_OOM_REASON_UNKNOWN, // free memory was not read
    CT_OOM_REASON_NOT_ENOUGH_FREE,    // what was needed is more than was free
    CT_OOM_REASON_ENOUGH_FREE,  // enough was free in total
    CT_OOM_REASON_HOST_MEMORY,    // page-locked host memory
    CT_OOM_REASON_ADDRESS_SPACE, // address space
    CT_OOM_REASON_BUDGET,  // the user's own limit
    CT_OOM_REASON_POOL_LIMIT,    // PyTorch refused without asking the driver
};

struct ct_oom_reason {
    enum ct_oom_reason_kind why;
    int rounded_known;
    uint64_t rounded, step; // inferred: the driver's steps are not documented
    uint64_t free;          // where known
    int free_known;
};

struct ct_oom_reason ct_oom_reason_find(const struct ct_refusal *r, int budget);
const char *ct_oom_reason_name(enum ct_oom_reason_kind why); // for JSON

#endif
