// SPDX-License-Identifier: Apache-2.0
// A trace as a stream of events, each with its final result and with ids that mean the same throughout.
#ifndef CT_TRACE_H
#define CT_TRACE_H

#include <cutrace/model/history.h>

#include "read/definitions.h"
#include "read/index.h"
#include "read/journal_read.h"

struct ct_trace {
    struct ct_source source;
    struct ct_index index;
    struct ct_definitions names;
    uint64_t events;         // numbered events in the readable chunks, as their prefixes say
    uint64_t missing_events; // by the numbers of the events: in chunks that are gone or unreadable
    uint64_t first_event;    // number of the first one there is (0, or what was overwritten)
    uint64_t t_first_ns, t_last_ns;
    uint64_t start_ns; // origin of the times that people read
    int ended;         // the process ended in good order and the last chunk is here
    int sealed;        // it was killed, and everything up to that is here
    int running;       // it still records
    uint64_t torn;     // events that were being recorded when it was killed
    // a file that is a ring
    uint64_t overwritten_events;
    int exact;                  // the state at the end is known in full
    uint64_t exact_from_ns;     // since then; 0: from the start of the process
    struct ct_history *history; // the newest one, or NULL
    // the journal
    int journal_found; // 1: it was read; 0: there is none; -1: it cannot be used
    struct ct_journal_contents journal;
    struct ct_error journal_error;
    // set before opening
    int no_journal; // do not look for it
    int sealing;    // whatever it says, its process is gone
    int details; // set before opening: durations and stacks of give-backs that came later count, too
    void (*progress)(void *user, uint64_t done, uint64_t total); // bytes of the file; may be NULL
    void *progress_user;
    // where it is read
    void *dctx;
    uint8_t *packed, *body;
    size_t packed_cap, body_cap;
    struct ct_map amends; // hash of thread and time -> place in amend_list
    struct ct_publish_amend *amend_list;
    size_t amend_count, amend_cap;
    size_t chunk;      // the one being read
    struct ct_in rest; // of its body, behind the events being read
    struct ct_decoder columns;
    struct ct_in body_of_chunk;
    int in_events, in_checkpoint; // what `columns` reads
    int checkpoint_done;          // of this chunk
    uint64_t next_number, last_ns;
};

// What comes next in a trace.
enum ct_step {
    CT_STEP_END,
    CT_STEP_EVENT,
    CT_STEP_RESET,    // nothing is known any more: what happened before was overwritten
    CT_STEP_COMPLETE, // what was restored is all there was
    CT_STEP_OBJECT, // something that was there already, as the event that made it; the number is that event's
};

// Opens a trace, reads all its dictionaries and corrections. 0, or -1 with the error set.
int ct_trace_open(struct ct_trace *t, const char *path, struct ct_error *error);
// The same for a source that is open already; the trace takes it over.
int ct_trace_open_source(struct ct_trace *t, struct ct_error *error);
// Back to the first event.
void ct_trace_rewind(struct ct_trace *t);
// What comes next, for those who follow the state.
enum ct_step ct_trace_step(struct ct_trace *t, struct ct_event *event, uint64_t *number);
// Next event: 1, or 0 behind the last one. Its ids (thread, api, stack, text) are those of `names`.
int ct_trace_next(struct ct_trace *t, struct ct_event *event, uint64_t *number);
// Whether nothing is missing, from the start of the process to its end, as far as chunks tell.
int ct_trace_is_complete(const struct ct_trace *t);
// Whether nothing is missing but what was overwritten on purpose.
int ct_trace_is_intact(const struct ct_trace *t);
// The body of a chunk, decompressed, until the next one is read. 0, or -1: it cannot be read.
int ct_trace_read_body(struct ct_trace *t, size_t chunk, struct ct_in *body);
// Where in the file what the journal adds to it goes.
uint64_t ct_trace_append_offset(const struct ct_trace *t);
void ct_trace_close(struct ct_trace *t);

// Whether an operation takes memory, addresses or references.
int ct_trace_op_acquires(uint32_t op);

#endif
