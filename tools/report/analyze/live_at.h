// SPDX-License-Identifier: Apache-2.0
// What is live at one event: by stack, in the device's memory split, and in CUDA's memory pools.
#ifndef CT_LIVE_AT_H
#define CT_LIVE_AT_H

#include "read/trace.h"
#include "replay/replay.h"

// What the allocations of one stack hold.
struct ct_holding {
    uint32_t stack;
    uint64_t bytes, count;
};

// A memory pool of CUDA's.
struct ct_mempool_usage {
    uint64_t pool;
    int device;
    uint64_t used, reserved;
};

struct ct_live_totals {
    struct ct_holding *holdings; // the most bytes first
    size_t holding_count;
    uint64_t bytes, count; // of all holdings
    struct ct_breakdown split;
    struct ct_mempool_usage *pools;
    size_t pool_count;
    uint64_t host_bytes;
};

// Reads the present state of a replay. `device`: an index, or -1 for all devices (then `split`
// stays empty).
void ct_live_at_read(struct ct_live_totals *t, const struct ct_replay *r, int device);
// Replays the trace up to just before an event, and reads the state there.
void ct_live_at_before(struct ct_live_totals *t, struct ct_trace *trace, uint64_t event,
                       int device);
// Lists the memory pools of a device, -1 for all. The caller frees the list.
struct ct_mempool_usage *ct_live_at_list_mempools(const struct ct_live *l, int device,
                                                  size_t *count);
void ct_live_at_sort(struct ct_live_totals *t); // sorts the holdings
void ct_live_at_free(struct ct_live_totals *t);

#endif
