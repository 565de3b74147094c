// SPDX-License-Identifier: Apache-2.0
// Every allocation of device memory and every block of PyTorch's with its lifetime, in one pass:
// a row when it ends, then one for each that is live at the end. Memory grows with what is live.
#ifndef CT_ALLOCATION_ROWS_H
#define CT_ALLOCATION_ROWS_H

#include "replay/replay.h"

enum ct_row_end {
    CT_ROW_LIVE,     // at the end of the range
    CT_ROW_FREED,    // by the event that the row names
    CT_ROW_REPLACED, // its free was missed: the event is an allocation at its address
    CT_ROW_UNKNOWN,  // it ended in a gap of the events
};

struct ct_allocation_row {
    int is_block;   // of PyTorch's; else memory of the driver
    int is_segment; // driver memory that held a block
    // Of an inexact checkpoint: `count` allocations that are known as a sum, or one that was freed
    // out of such a sum. When they were allocated is not known, and `key` is 0.
    int is_sum;
    uint64_t event, t_ns; // of the allocation
    enum ct_row_end end;
    uint64_t end_event, end_t_ns; // CT_ROW_UNKNOWN: the first event after the gap
    uint32_t end_stack, end_thread;
    uint64_t key; // address; of a VMM object or an array its handle
    int is_handle;
    uint64_t bytes, count;
    int device; // CUDA ordinal or CT_NO_DEVICE
    uint32_t stack, api, thread, space, flags;
    uint64_t known_from; // the first event after which it is known to be live
};

struct ct_allocation_rows {
    uint64_t from_ns, to_ns; // rows are of what was live in this range
    int device;              // -1: all
    // Either may be NULL. A row is valid during the call. `event` is called after each event of
    // the range, on whatever device.
    void (*row)(void *user, const struct ct_allocation_row *row);
    void (*event)(void *user, const struct ct_replay *r, const struct ct_event *e, uint64_t number);
    void *user;
};

void ct_allocation_rows_read(const struct ct_allocation_rows *request, struct ct_trace *t);
// Whether the allocation of a row was live after an event.
int ct_allocation_row_is_live_at(const struct ct_allocation_row *row, uint64_t event);
const char *ct_row_end_name(enum ct_row_end end);

#endif
