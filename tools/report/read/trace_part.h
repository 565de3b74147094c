// SPDX-License-Identifier: Apache-2.0
// The part of a trace that shows what is live at a moment: from the last whole checkpoint before it
// on, or from the start of the process. Of a trace that ct_trace_headers_open has opened, so that
// nothing else is read.
//
// A checkpoint is the recorder's claim (../views/QUICK.md). Where chunks are missing or damaged
// between it and the moment, what is live then is not known.
#ifndef CT_TRACE_PART_H
#define CT_TRACE_PART_H

#include "read/trace.h"

struct ct_trace_part {
    const char *unknown; // why what is live at the moment is not known; NULL: it is
    int is_sought;       // it begins at `point`, else at the first chunk
    struct ct_seek_point point;
    size_t begin, end;      // its chunks
    uint64_t failed_frees;  // by the digests of all chunks: AMENDs that say that a free had failed
    uint64_t unread_amends; // chunks after the part with such AMENDs that could not be read
    uint64_t lost;          // by the digests up to its end: events that the recorder lost
};

// Chooses the part for the moment after the last event up to a number and a time (each may be
// UINT64_MAX). `is_end`: the moment is the end of what the file has.
void ct_trace_part_choose(struct ct_trace_part *p, const struct ct_trace *t, uint64_t event,
                          uint64_t t_ns, int is_end);
// Reads the definitions and the corrections that the part needs. The trace then ends with it.
void ct_trace_part_read(struct ct_trace_part *p, struct ct_trace *t);
// After a replay of the part: whether all of its events could be read.
int ct_trace_part_is_whole(const struct ct_trace_part *p, const struct ct_trace *t);

#endif
