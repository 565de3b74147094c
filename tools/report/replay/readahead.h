// SPDX-License-Identifier: Apache-2.0
// Reads the steps of a trace in batches, ahead of the thread that replays them: in a thread of its
// own if there is more than one processor (base/workers.h). A reading of a device is held back
// until the size of the allocations that were under way at its time is known: their events follow
// (see readings.h).
//
// From ct_readahead_begin to ct_readahead_end that thread owns the trace's position and the list of
// damage. Both threads read the definitions, which do not change any more (ct_definitions_finish).
#ifndef CT_READAHEAD_H
#define CT_READAHEAD_H

#include "read/trace.h"

struct ct_readahead_step {
    struct ct_event event;
    uint64_t number;
    enum ct_step step;
    uint64_t ahead; // of a reading: bytes of the allocations of its device that were under way
};

// Consecutive steps, few enough to stay in a processor's first cache while they are replayed. The
// last step of the last batch is CT_STEP_END.
enum { CT_READAHEAD_BATCH = 64 };
// An allocation is known ahead of a reading that has at most so many events after it.
enum { CT_READAHEAD_EVENTS = 2048 };
struct ct_readahead_batch {
    struct ct_readahead_step step[CT_READAHEAD_BATCH];
    unsigned n;
};

struct ct_readahead;

// The trace must be at its first event, or have been sought. What is known ahead of a reading is
// the same wherever it began. `has_readings`: 0: nothing is known ahead of readings.
struct ct_readahead *ct_readahead_begin(struct ct_trace *t, int has_readings);
// The next batch, valid until the next call. Must not be called after the last batch.
const struct ct_readahead_batch *ct_readahead_next(struct ct_readahead *a);
// Stops reading. NULL: does nothing.
void ct_readahead_end(struct ct_readahead *a);

#endif
