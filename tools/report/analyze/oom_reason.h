// SPDX-License-Identifier: Apache-2.0
// Why an allocation failed, as far as the trace shows.
#ifndef CT_OOM_REASON_H
#define CT_OOM_REASON_H

#include "analyze/incidents.h"
#include "base/human.h"

enum ct_oom_reason_kind {
    CT_OOM_REASON_UNKNOWN,         // free memory was not read
    CT_OOM_REASON_SIZE_UNKNOWN,    // the call does not say how much it asks for
    CT_OOM_REASON_NOT_ENOUGH_FREE, // the rounded request exceeds the free memory
    CT_OOM_REASON_ENOUGH_FREE,     // enough was free in total
    CT_OOM_REASON_HOST_MEMORY,     // page-locked host memory
    CT_OOM_REASON_ADDRESS_SPACE,   // address space, not memory
    CT_OOM_REASON_BUDGET,          // the limit given with --capacity
    CT_OOM_REASON_POOL_LIMIT,      // PyTorch failed the request without asking the driver
};

struct ct_oom_reason {
    enum ct_oom_reason_kind kind;
    int rounded_known;
    uint64_t rounded, step; // inferred: the driver's steps are not documented
    int free_known;
    uint64_t free;
};

// `budget`: the event crossed the limit of --capacity, not the device's.
struct ct_oom_reason ct_oom_reason_find(const struct ct_oom_event *o, int budget);
// Returns the last call of an incident on a device that failed for a reason, or NULL. PyTorch's own
// report is no call.
const struct ct_oom_event *ct_oom_reason_find_call(const struct ct_incidents *n, size_t incident,
                                                   int device, enum ct_oom_reason_kind kind);
// How much was missing where too little was free, rounded so that it and what was free add up to
// the request, as both are shown.
struct ct_human_text ct_oom_reason_missing(const struct ct_oom_reason *reason,
                                           enum ct_human_units units);
const char *ct_oom_reason_name(enum ct_oom_reason_kind kind); // for JSON

#endif
