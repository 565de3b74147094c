// SPDX-License-Identifier: Apache-2.0
// Reads a part of a trace: the headers of its chunks, or what shows the state at a moment.
#ifndef CT_TRACE_PART_H
#define CT_TRACE_PART_H

#include "read/trace.h"

// A trace by the prefixes and digests of its chunks: no event, no journal, and of the bodies only
// the first bytes of a few, with names.

// Opens a trace like ct_trace_open, which sets what is not named here as if there were no journal:
// the definitions are those of ct_trace_headers_define. 0, or -1 with the error set.
int ct_trace_headers_open(struct ct_trace *t, const char *path, struct ct_error *error);

// Reads the definitions of the chunks one after the other, as long as a budget lasts.
struct ct_header_names {
    uint64_t left; // bytes of the file that may still be read
    int is_whole;  // all definitions of the current generation were read, up to the current chunk
    uint64_t from, to; // generations [from, to) of dictionaries whose names are read in any case
};
struct ct_header_names ct_trace_headers_begin_names(const struct ct_trace *t);
// Of the next chunk.
void ct_trace_headers_define(struct ct_trace *t, struct ct_header_names *names, size_t chunk);
// After the last chunk: makes what the definitions say of the trace as a whole.
void ct_trace_headers_end_names(struct ct_trace *t);
// Reads what the trace says of itself as a whole, and no more names than that takes. Names can be
// read afterwards.
void ct_trace_headers_read_facts(struct ct_trace *t);

// The part of a trace that shows what is live at a moment: from the last whole checkpoint before it
// on, or from the start of the process. Of a trace that ct_trace_headers_open has opened, so that
// nothing else is read.
//
// A checkpoint is the recorder's claim (../views/QUICK.md). Where chunks are missing or damaged
// between it and the moment, what is live then is not known.

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
