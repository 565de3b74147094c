// SPDX-License-Identifier: Apache-2.0
// What happened over the whole trace: peaks, refusals, the crossing, totals by stack, columns of a plot.
#ifndef CT_SCAN_H
#define CT_SCAN_H

#include "analyze/peak_totals.h"
#include "analyze/pool_curve.h"
#include "analyze/pool_growth.h"
#include "analyze/sharing.h"

// An event that crossed capacity: refused by the driver, or the first over a budget of the user's.
struct ct_refusal {
    uint64_t event, t_ns;
    int device; // index; CT_MAX_DEVICES = unknown
    uint32_t api, op, space, stack, thread, flags;
    int32_t result;
    int bytes_known, reading_known;
    uint64_t bytes, free, total;
    uint64_t live_bytes, live_allocations;
    struct ct_breakdown split; // the device at that moment
    int recovered;             // a retry of the same size succeeded later
    uint64_t recovered_event, recovered_t_ns;
    int driver_refused;          // of a block-oom: the driver had been asked before
    struct ct_torch_pool_totals pool; // of the device at that moment
    uint32_t earlier;            // chain of refusals of the same size that are not recovered, + 1
};

struct ct_device_scan {
    int seen;
    uint64_t peak_bytes, peak_event, peak_t_ns; // of live_bytes, in the range
    int peak_known;
    struct ct_torch_pool_totals pool_at_peak, pool_at_end;
    uint64_t used_peak, used_peak_t_ns; // of the whole device, as read
    int used_peak_known;
    uint64_t allocations; // in the range, successful
    int over_known;       // a budget was crossed
    struct ct_refusal over;
    struct ct_peak_totals marks; // by stack at the peak and at the last refusal
};

struct ct_stack_total {
    uint64_t live_bytes, live_count;
    uint64_t taken_bytes, taken_count; // in the range
};

struct ct_plot_column {
    int live_known, used_known;
    uint64_t live_min, live_max, used_min, used_max;
    uint32_t refusals;
    int coarse; // from the history
};

struct ct_scan_request {
    uint64_t from_ns, to_ns;
    int device;        // -1 = all
    uint64_t capacity; // 0 = none asked
    unsigned columns;  // 0 = no plot
    uint64_t columns_from, columns_to;
    unsigned points; // of the pools' curves; 0 = their blocks are not looked at
};

struct ct_scan {
    struct ct_scan_request request;
    uint64_t events, lost, ops[CT_OPS_END];
    struct ct_device_scan device[CT_DEVICES];
    struct ct_refusal *refusals;
    size_t refusal_count, refusal_cap;
    struct ct_stack_total *stacks; // by stack id
    size_t stack_count;
    struct ct_plot_column *plot[CT_DEVICES]; // NULL for devices not seen
    struct ct_replay end;                    // the state behind the last event of the range
    struct ct_pool_curve curve;                   // of the pools
    struct ct_pool_growths growths;
    struct ct_sharing sharing;
    // working state
    struct ct_map waiting; // size and device -> last refusal not recovered, + 1
    unsigned column[CT_DEVICES];
    int in_range, touched; // touched: device of the last change of what is live
    int driver_refused;    // the thread of the event that is looked at, since its last block
};

void ct_scan_run(struct ct_scan *s, struct ct_trace *t, const struct ct_scan_request *request);
void ct_scan_free(struct ct_scan *s);
// The crossing, or NULL: with a budget the first event over it; else the last refusal without a later
// successful retry; else the first refusal.
const struct ct_refusal *ct_scan_find_crossing(const struct ct_scan *s);
// Whether the refused memory was to be the device's (and not host memory or address space).
int ct_scan_is_device_memory(const struct ct_refusal *r);

#endif
