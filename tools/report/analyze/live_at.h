// SPDX-License-Identifier: Apache-2.0
// What is live at one event: by stack, in the device's memory split, and in CUDA's memory pools.
// POOL.md ("Call sites of live memory") has the rule for memory of PyTorch's pools.
#ifndef CT_LIVE_AT_H
#define CT_LIVE_AT_H

#include "read/trace.h"
#include "replay/replay.h"

enum ct_holding_kind {
    CT_HOLDING_ALLOCATION,               // allocations of the driver that are no segments
    CT_HOLDING_BLOCK,                    // PyTorch's blocks in segments
    CT_HOLDING_SEGMENT,                  // segments, by the stack that called the driver
    CT_HOLDING_STACKS,                   // so far: those that have a stack
    CT_HOLDING_IDLE = CT_HOLDING_STACKS, // what no block covers of the segments; without a stack
};

// What one stack holds, in objects of one kind.
struct ct_holding {
    enum ct_holding_kind kind;
    uint32_t stack;
    uint64_t bytes, count; // idle: number of free blocks
    // When the oldest object was allocated, or of sums of an inexact checkpoint the first one; 0:
    // not known.
    uint64_t oldest_ns;
    uint64_t resumed_bytes; // part of `bytes`: memory that has slept
    uint32_t resumed_by;    // the last stack that resumed some of that; 0: not known
};

// How segments are divided among the rows.
enum ct_holding_rows {
    CT_ROWS_BY_BLOCK,   // into blocks and what is idle
    CT_ROWS_BY_SEGMENT, // not at all
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
    enum ct_holding_rows rows;
    uint64_t bytes, count; // of the driver's allocations; the holdings add up to these bytes
    struct ct_breakdown split;
    struct ct_mempool_usage *pools;
    size_t pool_count;
    uint64_t host_bytes;
    uint64_t rounding_bytes; // of large allocations up to multiples of 2 MiB, as frag infers it
    uint64_t asleep_bytes;   // of PyTorch's blocks, whose memory is unmapped: not part of `bytes`
};

// Reads the present state of a replay. `device`: an index, or -1 for all devices (then `split`
// stays empty). Rows are by block only if the replay has followed the blocks.
void ct_live_at_read(struct ct_live_totals *t, const struct ct_replay *r, int device,
                     enum ct_holding_rows rows);
// Whether an object counts for a device (as above), and as what.
int ct_live_at_classify(const struct ct_replay *r, const struct ct_object *o, int device,
                        enum ct_holding_kind *kind);
// What the driver needs beyond so many bytes: it hands out device memory in blocks of 2 MiB, of
// which allocations of less share one. Inferred.
uint64_t ct_live_at_round(uint64_t bytes);
// The same of an object: 0 of what is no allocation call's device memory.
uint64_t ct_live_at_rounding(const struct ct_live *l, const struct ct_object *o);
// The free blocks of a device's segments as a holding; -1 for all devices.
struct ct_holding ct_live_at_find_idle(const struct ct_replay *r, int device);
// The bytes of PyTorch's blocks that sleep on a device; -1: on all devices.
uint64_t ct_live_at_sum_asleep(const struct ct_replay *r, int device);
// Sets `resumed_by` of holdings with resumed bytes.
void ct_live_at_find_resumers(struct ct_live_totals *t, const struct ct_resumers *resumers);
// Turns holdings of all kinds that have stacks into rows that do not overlap, sorted, and sets
// `bytes` and `count`. `idle`: as found at the same event.
void ct_live_at_arrange(struct ct_live_totals *t, struct ct_holding idle,
                        enum ct_holding_rows rows);
const char *ct_holding_kind_name(enum ct_holding_kind kind);
// Lists the memory pools of a device, -1 for all. The caller frees the list.
struct ct_mempool_usage *ct_live_at_list_mempools(const struct ct_live *l, int device,
                                                  size_t *count);
void ct_live_at_free(struct ct_live_totals *t);

// ---- totals at candidate moments ----------------------------------------------------------------
// Copy-on-write totals by stack and kind: at a device's highest peak so far and its last OOM. Only
// the end of the trace shows which candidate mattered; with its totals kept, the trace need not be
// read again.

enum ct_totals_moment { CT_TOTALS_AT_PEAK, CT_TOTALS_AT_OOM, CT_TOTALS_MOMENTS };

// Of one stack and kind, in one cache line. A saved total is valid if its `generation` is the
// candidate's; otherwise the stack has not changed since the candidate was captured.
struct ct_stack_at_peak {
    uint64_t bytes, count; // now
    struct {
        uint64_t generation, bytes, count;
    } saved[CT_TOTALS_MOMENTS];
};
_Static_assert(sizeof(struct ct_stack_at_peak) == 64, "one cache line");

// The candidates of one device.
struct ct_peak_totals {
    struct ct_stacks_at_peak {
        struct ct_stack_at_peak *list; // by stack id
        size_t count;
    } kind[CT_HOLDING_STACKS], resumed[CT_HOLDING_STACKS]; // resumed: a part of what is held
    const struct ct_resumers *resumers;                    // of the replay that was captured last
    uint64_t rounding_bytes;                               // at present (ct_live_at_rounding)
    struct {
        uint64_t generation; // number of captures; 0: none yet
        uint64_t event;
        struct ct_holding idle;
        struct ct_breakdown split;
        uint64_t host_bytes, asleep_bytes, rounding_bytes;
        struct ct_mempool_usage *pools;
        size_t pool_count;
    } candidate[CT_TOTALS_MOMENTS];
};

// Makes room for a stack.
void ct_peak_totals_grow(struct ct_stacks_at_peak *stacks, uint32_t stack);

// Adds to the present totals of a stack, in `kind` or `resumed`; what was freed is added as the
// two's complement.
static inline void ct_peak_totals_add(const struct ct_peak_totals *p,
                                      struct ct_stacks_at_peak *stacks, uint32_t stack,
                                      uint64_t bytes, uint64_t count) {
    if (stack >= stacks->count)
        ct_peak_totals_grow(stacks, stack);
    struct ct_stack_at_peak *s = &stacks->list[stack];
    for (unsigned i = 0; i < CT_TOTALS_MOMENTS; i++) {
        CT_ASSERT(s->saved[i].generation <= p->candidate[i].generation);
        if (s->saved[i].generation == p->candidate[i].generation)
            continue;
        s->saved[i].generation = p->candidate[i].generation;
        s->saved[i].bytes = s->bytes;
        s->saved[i].count = s->count;
    }
    s->bytes += bytes;
    s->count += count;
}

// Captures the state after an event of a device (an index) as its new candidate.
void ct_peak_totals_capture(struct ct_peak_totals *p, enum ct_totals_moment moment,
                            const struct ct_replay *r, int device, uint64_t event);
// Returns the memory split at a candidate; all unknown and 0 if none was captured.
struct ct_breakdown ct_peak_totals_split(const struct ct_peak_totals *p,
                                         enum ct_totals_moment moment);
// Returns 1 and the candidate's totals (at a peak without memory pools), or 0 if it was not
// captured at that event.
int ct_peak_totals_get(const struct ct_peak_totals *p, enum ct_totals_moment moment, uint64_t event,
                       enum ct_holding_rows rows, struct ct_live_totals *totals);
void ct_peak_totals_free(struct ct_peak_totals *p);

// ---- host memory --------------------------------------------------------------------------------
// Page-locked host memory by the library that allocated or registered it.

struct ct_host_memory {
    int registered;  // memory of the program's own that was registered; else allocated
    uint32_t module; // path of the library that called CUDA, a string's id; 0: not known
    uint64_t ranges, bytes;
};

// Lists what is live, the most bytes first. The caller frees the list.
struct ct_host_memory *ct_host_memory_list(const struct ct_definitions *n, const struct ct_live *l,
                                           size_t *count);

#endif
