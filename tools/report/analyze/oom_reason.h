// SPDX-License-Identifier: Apache-2.0
// Why an allocation failed, as far as the trace shows, and what would have been enough for it.
#ifndef CT_OOM_REASON_H
#define CT_OOM_REASON_H

#include "analyze/incidents.h"
#include "analyze/pool_growth.h"
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

// Where the memory was that a failed request missed: what would have been enough for it.

struct ct_oom_cause {
    // The rounded request beyond the free memory; 0: enough was free, or it is not known how much.
    uint64_t missing;
    int exceeds_device; // the request is larger than the whole device
    // The request, if the free memory of PyTorch's pool would have been enough; or NULL.
    const struct ct_pool_growth *pool;
    // Not 0: it would have been enough.
    uint64_t idle_bytes;         // in PyTorch's segments without a block
    uint64_t others_bytes;       // held by other processes
    uint64_t mempool_idle_bytes; // idle in CUDA's memory pools
};

// The bytes that others hold, where they are a cause; else 0.
uint64_t ct_oom_cause_judge_others(const struct ct_oom_event *o, uint64_t missing, uint64_t bytes);
// `reason`: of the same event. `growths`: NULL if PyTorch's pool is not looked at.
struct ct_oom_cause ct_oom_cause_find(const struct ct_oom_event *o,
                                      const struct ct_oom_reason *reason,
                                      const struct ct_pool_growths *growths);

#endif
