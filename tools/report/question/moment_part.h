// SPDX-License-Identifier: Apache-2.0
// What is live at a moment, by the part of a trace that shows it: no scan comes first.
#ifndef CT_MOMENT_PART_H
#define CT_MOMENT_PART_H

#include "analyze/moment.h"
#include "read/trace_part.h"

struct ct_moment_part {
    struct ct_trace_part part;
    struct ct_moment moment; // of an event: t_ns is UINT64_MAX until that is replayed
    struct ct_replay state;  // if the part is known
    uint64_t replayed;       // events after the checkpoint, or from the start
};

// Reads what the part needs of the trace, of which ct_trace_headers_open and
// ct_trace_headers_read_facts have read the rest. Definitions do not change afterwards.
void ct_moment_part_read(struct ct_moment_part *p, struct ct_trace *t,
                         const struct ct_moment *moment);
// Then replays it. Sets `part.unknown` if that fails.
void ct_moment_part_replay(struct ct_moment_part *p, struct ct_trace *t);
// Whether something of a device is live or asleep then.
int ct_moment_part_has(const struct ct_moment_part *p, int device);
void ct_moment_part_free(struct ct_moment_part *p);

#endif
