// SPDX-License-Identifier: Apache-2.0
// One pass over a trace that collects what the views need: peaks, OOMs, the crossing of capacity,
// totals by stack, the columns of a plot, and PyTorch's pools.
#ifndef CT_SCAN_H
#define CT_SCAN_H

#include "analyze/peak_totals.h"
#include "analyze/pool_curve.h"
#include "analyze/pool_growth.h"
#include "analyze/sharing.h"

// An event that crossed capacity: a failed allocation, or the first event over a budget of the
// user's.
struct ct_oom_event {
    uint64_t event, t_ns;
    int device; // index; CT_MAX_DEVICES = unknown
    uint32_t api, op, space, stack, thread, flags;
    int32_t result;
    int bytes_known, reading_known;
    uint64_t bytes, free, total;
    uint64_t live_bytes, live_allocations;
    struct ct_breakdown split; // of the device at the event
    int recovered;             // a retry of the same size succeeded later
    uint64_t recovered_event, recovered_t_ns;
    int driver_failed;                // of a block-oom: the driver had run out of memory before
    struct ct_torch_pool_totals pool; // of the device at the event
    uint32_t earlier;                 // the previous OOM of the same size without a retry, + 1
};

struct ct_device_scan {
    int seen;
    uint64_t peak_bytes, peak_event, peak_t_ns; // of live_bytes, in the range
    int peak_known;
    struct ct_torch_pool_totals pool_at_peak, pool_at_end;
    uint64_t used_peak, used_peak_t_ns; // of the whole device, as read
    int used_peak_known;
    uint64_t allocations; // in the range, successful
    int over_known;       // the budget was crossed
    struct ct_oom_event over;
    struct ct_peak_totals totals; // by stack, at the peak and at the last OOM
};

struct ct_stack_total {
    uint64_t live_bytes, live_count;
    uint64_t total_bytes, total_count; // of all allocations in the range
};

struct ct_plot_column {
    int live_known, used_known;
    uint64_t live_min, live_max, used_min, used_max;
    uint32_t ooms;
    int coarse; // from the coarse history
};

struct ct_scan_request {
    uint64_t from_ns, to_ns;
    int device;        // -1 = all
    uint64_t capacity; // the budget; 0 = none. The pass ends where it is exceeded
    unsigned columns;  // 0 = no plot
    uint64_t columns_from, columns_to;
    unsigned points; // of the pools' curves; 0 = PyTorch's blocks are not analysed
};

struct ct_scan {
    struct ct_scan_request request;
    uint64_t events, lost, ops[CT_OPS_END];
    struct ct_device_scan device[CT_DEVICES];
    struct ct_oom_event *ooms;
    size_t oom_count, oom_capacity;
    struct ct_stack_total *stacks; // by stack id
    size_t stack_count;
    struct ct_plot_column *plot[CT_DEVICES]; // NULL for devices not seen
    struct ct_replay end;                    // the state behind the last event of the range
    struct ct_pool_curve curve;
    struct ct_pool_growths growths;
    struct ct_sharing sharing;
    // Working state of the pass.
    struct ct_map unrecovered; // key of a request -> its last OOM without a retry, + 1
    unsigned column[CT_DEVICES];
    int in_range;
    int exceeded;       // the budget was
    int changed_device; // of the last change of what is live
    int driver_failed;  // for the thread of the present event, since its last block
};

void ct_scan_run(struct ct_scan *s, struct ct_trace *t, const struct ct_scan_request *request);
void ct_scan_free(struct ct_scan *s);
// Returns the crossing of capacity, or NULL. With a budget: the first event over it. Otherwise the
// last OOM without a later successful retry, or else the first OOM.
const struct ct_oom_event *ct_scan_find_crossing(const struct ct_scan *s);
// Whether device memory was asked for, as opposed to host memory and address space.
int ct_scan_is_device_memory(const struct ct_oom_event *o);

#endif
