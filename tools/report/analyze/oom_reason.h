// SPDX-License-Identifier: Apache-2.0
// Why an allocation was refused, as far as the trace tells.
#ifndef CT_VERDICT_H
#define CT_VERDICT_H

#include "analyze/scan.h"

enum ct_why {
    CT_WHY_UNKNOWN, // free memory was not read
    CT_WHY_FULL,    // what was needed is more than was free
    CT_WHY_ENOUGH,  // enough was free in total
    CT_WHY_HOST,    // page-locked host memory
    CT_WHY_ADDRESS, // address space
    CT_WHY_BUDGET,  // the user's own limit
    CT_WHY_POOL,    // PyTorch refused without asking the driver
};

struct ct_verdict {
    enum ct_why why;
    int rounded_known;
    uint64_t rounded, step; // inferred: the driver's steps are not documented
    uint64_t free;          // where known
    int free_known;
};

struct ct_verdict ct_verdict_of(const struct ct_refusal *r, int budget);
const char *ct_why_name(enum ct_why why); // for JSON

#endif
