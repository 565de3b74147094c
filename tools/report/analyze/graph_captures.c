// SPDX-License-Identifier: Apache-2.0
#include "analyze/graph_captures.h"

#include <cutrace/model/measured.h>

// Events of the end of an executable have its handle.
static int is_instantiation(const struct ct_event *e) {
    return ct_measured_part_of(e) == CT_MEASURED_GRAPHS && !CT_HAS(e, handle) && CT_HAS(e, stack) &&
           !(CT_HAS(e, result) && e->result);
}

struct ct_graph_captures ct_graph_captures_read(struct ct_trace *t, struct ct_phases *phases,
                                                int device, uint64_t to_ns) {
    struct ct_graph_captures g = {0};
    struct ct_event e;
    uint64_t number;
    ct_trace_rewind(t);
    while (ct_trace_next(t, &e, &number) && e.t_ns <= to_ns) {
        if (!is_instantiation(&e) || !CT_HAS(&e, device) || (int)e.device != device ||
            ct_phases_find(phases, e.stack).phase != CT_PHASE_GRAPHS)
            continue;
        g.count++;
        if (!CT_HAS(&e, free_before_bytes) || !CT_HAS(&e, free_bytes) ||
            e.free_before_bytes < e.free_bytes)
            continue;
        g.measured++;
        g.bytes += e.free_before_bytes - e.free_bytes;
    }
    return g;
}
