// SPDX-License-Identifier: Apache-2.0
// What the recorder noted of a trace: the digests of its chunks, joined. A digest is a claim that
// only the events prove, so whoever shows these figures says whose they are. Each is what a replay
// of all events finds, or is marked as less than that.
#ifndef CT_RECORDER_NOTES_H
#define CT_RECORDER_NOTES_H

#include <cutrace/model/digest.h>

#include "base/map.h"
#include "read/trace_part.h"

enum { CT_NOTED_FAILED = 64, CT_NOTED_COLUMNS = 60 };

struct ct_noted_device {
    int seen;
    // The highest live bytes, since which event, among the chunks before which all that is live is
    // known. Exact: nothing can have been higher.
    int has_peak, peak_is_exact;
    uint64_t peak_bytes, peak_event, peak_ns;
    uint64_t live_bytes; // after the last chunk with notes
    uint64_t bound;      // the highest of what is not known in full
    // As of a chunk (digest.h).
    int has_lowest, has_last, has_reported;
    struct ct_digest_reading lowest, last;
    uint64_t allocated, reserved;
    uint64_t most_allocated, most_allocated_event, most_reserved, most_reserved_event;
};

// Chunks that follow one another.
struct ct_noted_column {
    size_t chunks, without; // how many, and of these those without notes
    uint64_t end_ns;        // of their last event, 0: they have none
    uint64_t most[CT_DEVICES];
};

// What a call site took and gave back. The stack is an id of the definitions, 0: no stack.
struct ct_noted_site {
    int is_named; // else the stack is not known: its definition was not read
    uint32_t stack;
    struct ct_digest_flow flow;
};

struct ct_recorder_notes {
    size_t chunks, noted; // of all chunks those with notes
    // Of the others: their events, and when.
    uint64_t unnoted_events, unnoted_from_ns, unnoted_to_ns;
    uint64_t ops[CT_DIGEST_OPS], lost, failed_frees;
    uint64_t failed, failed_event[CT_NOTED_FAILED]; // of failed requests, the first ones
    struct ct_noted_device device[CT_DEVICES];
    int live_is_known; // what is live after the last chunk with notes is what a replay finds
    uint64_t live_ns;  // when that is
    struct ct_noted_column column[CT_NOTED_COLUMNS];
    unsigned columns;
    // If they are read: call sites, and the sum of those that the chunks do not list. All that a
    // site took is known only if each chunk lists all.
    struct ct_noted_site *site;
    size_t sites, site_room;
    struct ct_digest_flow rest;
    size_t with_rest; // chunks
};

// Reads the notes of a trace whose chunks are known: of ct_trace_headers_open, whose definitions it
// reads if `names` is not NULL, or of ct_trace_open.
void ct_recorder_notes_read(struct ct_recorder_notes *n, struct ct_trace *t,
                            struct ct_header_names *names);
// Whether each chunk from the first event on has notes, so that counts are those of all events.
int ct_recorder_notes_are_whole(const struct ct_recorder_notes *n, const struct ct_trace *t);
// The device with the highest peak, -1: none was used.
int ct_recorder_notes_main_device(const struct ct_recorder_notes *n);
void ct_recorder_notes_free(struct ct_recorder_notes *n);

#endif
