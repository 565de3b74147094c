// SPDX-License-Identifier: Apache-2.0
// The steps of a trace, read ahead of whoever follows them: by a thread of its own where there is more than one processor.
//
// From ct_readahead_begin to ct_readahead_end, what is read of the trace belongs to that thread: its position, and what it finds
// damaged. Names do not change any more (ct_definitions_finish), so that both may use them.
#ifndef CT_AHEAD_H
#define CT_AHEAD_H

#include "read/trace.h"

struct ct_readahead_step {
    struct ct_event event;
    uint64_t number;
    enum ct_step step;
};

// Steps that follow one another. The last one of the last batch is CT_STEP_END.
enum { CT_READAHEAD_BATCH = 256 };
struct ct_readahead_batch {
    struct ct_readahead_step step[CT_READAHEAD_BATCH];
    unsigned n;
};

struct ct_readahead;

// The trace is at its beginning.
struct ct_readahead *ct_readahead_begin(struct ct_trace *t);
// The next batch, good until the next call; not to be asked for behind the last one.
const struct ct_readahead_batch *ct_readahead_next(struct ct_readahead *a);
// Wherever it has come to. NULL: nothing was begun.
void ct_readahead_end(struct ct_readahead *a);

#endif
