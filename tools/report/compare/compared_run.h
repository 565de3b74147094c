// SPDX-License-Identifier: Apache-2.0
// One side of a comparison: a trace at a moment.
//
// Both sides are read step by step, because what one of them holds decides how the other is shown:
// its rows (by block or by segment) and how many callers a call site shows.
#ifndef CT_COMPARED_RUN_H
#define CT_COMPARED_RUN_H

#include "analyze/account.h"
#include "analyze/capacity.h"
#include "analyze/phase_times.h"
#include "compare/site_identity.h"
#include "sites/leaks.h"

struct ct_compared_run {
    struct ct_trace *trace;
    struct ct_call_sites *sites;
    struct ct_phases *phases;
    uint64_t from_ns, to_ns; // of the range
    struct ct_scan scan;     // without its state at the end
    struct ct_moment moment;
};

// What a side holds of one device. All 0 if the side has no such device.
struct ct_compared_device {
    int exists, device; // an index
    struct ct_moment moment;
    int peak_known; // in the range
    uint64_t peak_bytes, peak_t_ns;
    struct ct_live_totals now;
    struct ct_account account;
    struct ct_capacity capacity;
    struct ct_torch_pool_totals pool;
    struct ct_leaks leaks; // up to the moment; its groups are the call sites
    struct ct_phase_times phases;
    struct ct_replay replay; // the state at the moment, between the two reading steps
};

// Scans the trace and chooses the moment. `is_usual`: that of the OOM of device memory that was not
// recovered, else the peak; otherwise that of `kind` (and `at`).
void ct_compared_run_scan(struct ct_compared_run *r, int device, int is_usual,
                          enum ct_moment_kind kind, const struct ct_instant *at);
void ct_compared_run_free(struct ct_compared_run *r);

// Reads the same device of both sides; an index of -1: this side has none. `rows`: as wanted. Where
// one side cannot have them by block, neither has.
void ct_compared_devices_read(struct ct_compared_device d[CT_SIDES],
                              struct ct_compared_run *r[CT_SIDES], const int device[CT_SIDES],
                              enum ct_holding_rows rows, struct ct_site_identity *identity);
void ct_compared_device_free(struct ct_compared_device *d);

// The growth of a call site (a group) in an hour. 0: not known.
int ct_compared_device_rate(const struct ct_compared_device *d, size_t group, uint64_t *per_hour);
// When the oldest of what a call site holds was allocated; 0: not known.
uint64_t ct_compared_device_oldest(const struct ct_compared_device *d, size_t group);

#endif
