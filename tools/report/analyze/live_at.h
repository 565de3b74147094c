// SPDX-License-Identifier: Apache-2.0
// The state at one moment: what is live by stack, by address, and in pools.
#ifndef CT_MOMENT_H
#define CT_MOMENT_H

#include "read/trace.h"
#include "replay/replay.h"

struct ct_holding {
    uint32_t stack;
    uint64_t bytes, count;
};

// What the addresses of live allocations tell. The physical layout is the driver's secret, so all of
// this is inferred, on the footing that the driver hands out device memory in blocks of 2 MiB.
struct ct_address_layout {
    uint64_t ranges, range_bytes;      // live addresses of device memory, from allocation calls
    uint64_t gaps, gap_bytes, gap_max; // between neighbours, less apart than the device is large
    uint64_t rounding_bytes;           // large allocations, up to the next multiple of 2 MiB
    uint64_t small_blocks,
        small_bytes; // 2 MiB blocks that only small allocations hold; live in them
};

struct ct_mempool_usage {
    uint64_t pool;
    int device;
    uint64_t handed_out, reserved;
};

struct ct_live_totals {
    struct ct_holding *holdings; // the most bytes first
    size_t holding_count;
    uint64_t bytes, count;
    struct ct_breakdown split;
    struct ct_address_layout frag;
    struct ct_mempool_usage *pools;
    size_t pool_count;
    uint64_t host_bytes;
};

// Of a device's index; -1 for all devices (then without split and frag).
void ct_live_at_read(struct ct_live_totals *m, const struct ct_replay *r, int device, uint64_t capacity);
// Replays up to an event (before it, or behind it) and takes the moment.
void ct_live_at_event(struct ct_live_totals *m, struct ct_trace *t, uint64_t event, int before, int device,
                  uint64_t capacity);
// Parts of a moment: the pools of a device (-1 for all), which the caller frees; the order of holdings.
struct ct_mempool_usage *ct_live_at_list_mempools(const struct ct_live *l, int device, size_t *count);
void ct_live_at_sort(struct ct_live_totals *m);
void ct_live_at_free(struct ct_live_totals *m);
struct ct_address_layout ct_address_layout_measure(const struct ct_replay *r, int device, uint64_t capacity);

#endif
