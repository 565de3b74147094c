// SPDX-License-Identifier: Apache-2.0
// A trace by the prefixes and digests of its chunks: no event, no journal, and of the bodies only
// the first bytes of a few, with names.
#ifndef CT_TRACE_HEADERS_H
#define CT_TRACE_HEADERS_H

#include "read/trace.h"

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

#endif
