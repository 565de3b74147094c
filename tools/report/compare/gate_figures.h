// SPDX-License-Identifier: Apache-2.0
// The figures that a test bounds (--fail-on), of a whole trace or a range of it.
#ifndef CT_GATE_FIGURES_H
#define CT_GATE_FIGURES_H

#include "sites/leaks.h"

struct ct_gate_growth {
    int is_short; // less time than `shortest_ns` was judged
    uint64_t judged_ns, shortest_ns, per_hour;
    // Held by call sites of which nothing can be told yet. All of it kept in the judged time would
    // be a growth of `untold_per_hour`.
    uint64_t untold_bytes, untold_per_hour;
};

struct ct_gate_device {
    int is_used; // memory of it was allocated
    uint64_t peak_bytes, peak_t_ns;
    int peak_is_overwritten;          // by the coarse history
    struct ct_torch_pool_totals pool; // at the OOM that crossed capacity, else at the peak
    int pool_at_oom;
    uint64_t pool_t_ns;
    struct ct_gate_growth growth; // if it was asked for
};

struct ct_gate_figures {
    struct ct_gate_device device[CT_DEVICES];
    int any_used, any_pool;
    struct ct_incident_counts incidents;
    uint64_t first_failure_ns; // of the incidents that the program noticed
    int over_known;            // the budget would have been exceeded
    uint64_t over_t_ns;        // when that first was so
    uint64_t overwritten_ooms; // failed calls that only the coarse history has
    uint64_t lost;             // as LOST events of the range count them
};

struct ct_gate_request {
    struct ct_call_sites *sites;
    struct ct_phases *phases;
    uint64_t from_ns, to_ns;
    int device;        // -1: all
    uint64_t capacity; // a budget; 0: none
    int with_growth;   // takes two more passes for each device
};

void ct_gate_figures_read(struct ct_gate_figures *g, struct ct_trace *t,
                          const struct ct_gate_request *q);

#endif
