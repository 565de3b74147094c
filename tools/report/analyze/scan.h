// SPDX-License-Identifier: Apache-2.0
// What the views need of a trace: peaks, OOMs, the crossing of capacity, totals by stack, the
// columns of a plot, and PyTorch's pools.
#ifndef CT_SCAN_H
#define CT_SCAN_H

#include "analyze/incidents.h"
#include "analyze/live_at.h"
#include "analyze/pool_curve.h"
#include "analyze/pool_growth.h"
#include "analyze/sharing.h"
#include "replay/replay.h"

// Memory of the driver, and the thread that allocated it.
struct ct_new_memory {
    int known;
    uint32_t thread;
    uint64_t start, bytes; // 0 bytes: not mapped yet
    uint64_t handle;
};

struct ct_device_scan {
    int seen;
    // Of live_bytes, in the range. The block for which the memory was allocated belongs to the same
    // moment: then the event is that of the block.
    uint64_t peak_bytes, peak_event, peak_t_ns;
    int peak_known;
    struct ct_new_memory peak_memory; // that led to the peak; whose block is to come
    struct ct_torch_pool_totals pool_at_peak, pool_at_end;
    uint64_t used_peak; // of the whole device, as read
    int used_peak_known;
    uint64_t allocations; // in the range, successful
    int over_known;       // the budget was crossed
    struct ct_oom_event over;
    int has_totals;               // some of the totals by stack are the device's
    size_t divided_ooms;          // those before this position have had their report of NVML
    struct ct_peak_totals totals; // by stack, at the peak and at the last OOM
};

// What a stack has allocated in the range.
struct ct_stack_total {
    uint64_t bytes, count;
    uint64_t first_event, first_ns, last_ns; // of its allocations
};

struct ct_stack_totals {
    struct ct_stack_total *list; // by stack id
    size_t count;
};

struct ct_plot_column {
    int live_known, used_known;
    uint64_t live_min, live_max, used_min, used_max;
    uint64_t asleep_max; // of PyTorch's blocks, where the pass follows them
    uint32_t ooms;       // incidents, by their heads; from the coarse history: failed calls
    int coarse;          // from the coarse history
};

// How the memory of a device was used at the moments that views show. `free` is what the budget
// leaves, if there is one.
struct ct_device_memory {
    int crossing_known, peak_known; // the crossing is of this device; the device has a peak
    struct ct_breakdown crossing, peak, end;
};

struct ct_scan_request {
    uint64_t from_ns, to_ns;
    uint64_t end_event; // the first event after the range, by number; 0: none
    int device;         // -1 = all
    uint64_t capacity;  // the budget; 0 = none. The pass ends where it is exceeded
    unsigned columns;   // 0 = no plot
    uint64_t columns_from, columns_to;
    unsigned points;          // of the pools' curves; 0 = PyTorch's pools are not analysed
    int blocks;               // follow PyTorch's blocks, even if points is 0
    struct ct_phases *phases; // for the phases of OOMs; may be NULL
};

struct ct_scan {
    struct ct_scan_request request;
    uint64_t events, lost, ops[CT_OPS_END];
    uint64_t failures; // of all devices, before the range, too
    struct ct_device_scan device[CT_DEVICES];
    struct ct_incidents incidents;
    struct ct_stack_totals totals[CT_HOLDING_STACKS]; // by kind
    struct ct_plot_column *plot[CT_DEVICES];          // NULL for devices not seen
    struct ct_replay end;                             // the state after the last event of the range
    struct ct_pool_curve curve;
    struct ct_pool_growths growths;
    struct ct_segment_streams streams;
    struct ct_sharing sharing;
    struct ct_phase_follow follow;
    // Working state of the pass.
    struct ct_driver_requests requests;
    struct ct_driver_request *of_event; // the request that the present event belongs to, or NULL
    unsigned column[CT_DEVICES];
    uint64_t last_ns;                // of the event before
    uint64_t latest_ns;              // of all events
    int is_never_known;              // what is live
    int in_range, counts;            // the present event; and it is on a wanted device
    struct ct_oom_event before;      // the present event and the state before it, with a budget
    const struct ct_phase_at *phase; // of the present event
    uint64_t event;                  // the present one
    uint64_t known_event;            // the first event after the last gap
    int exceeded;                    // the budget was
    int changed_device;              // of the last change of what is live
    uint64_t resets;                 // before the present event
    int was_known;                   // before the present event
};

// `s`: zero but for `end`, the replay of the pass, which ends with the scan (question/question.h
// runs it).
void ct_scan_join(struct ct_scan *s, struct ct_listeners *to, const struct ct_trace *t,
                  const struct ct_scan_request *request);
// After the pass.
void ct_scan_finish(struct ct_scan *s, struct ct_trace *t);
void ct_scan_free(struct ct_scan *s);
struct ct_device_memory ct_scan_memory(const struct ct_scan *s, int device);
// Whether there are totals by stack, and they are those of a scan of this device alone.
int ct_scan_is_of_one_device(const struct ct_scan *s, int device);
// Sets `free` to what a budget leaves (0: there is none).
void ct_scan_limit_free(struct ct_breakdown *split, uint64_t capacity);
// Returns the device (an index) with the highest peak; -1: none was seen.
int ct_scan_find_fullest(const struct ct_scan *s);
// Returns the crossing of capacity, or NULL. With a budget: the first event over it. Otherwise the
// head of an incident, see ct_incidents_find_crossing.
const struct ct_oom_event *ct_scan_find_crossing(const struct ct_scan *s);

#endif
