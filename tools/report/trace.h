// SPDX-License-Identifier: Apache-2.0
// A trace as a stream of events, each with its final result and with ids that mean the same throughout.
#ifndef CT_TRACE_H
#define CT_TRACE_H

#include "index.h"
#include "names.h"

struct ct_trace {
    struct ct_source source;
    struct ct_index index;
    struct ct_names names;
    uint64_t events;         // numbered events in the readable chunks, as their prefixes say
    uint64_t missing_events; // by the numbers of the events: in chunks that are gone or unreadable
    uint64_t first_event;    // number of the first one there is (0, or what was overwritten)
    uint64_t t_first_ns, t_last_ns;
    uint64_t start_ns; // origin of the times that people read
    int ended;         // the process ended in good order and the last chunk is here
    int details; // set before opening: durations and stacks of give-backs that came later count, too
    void (*progress)(void *user, uint64_t done, uint64_t total); // bytes of the file; may be NULL
    void *progress_user;
    // where it is read
    void *dctx;
    uint8_t *packed, *body;
    size_t packed_cap, body_cap;
    struct ct_map amends; // hash of thread and time -> place in amend_list
    struct ct_amend *amend_list;
    size_t amend_count, amend_cap;
    size_t chunk;      // the one being read
    struct ct_in rest; // of its body, behind the events being read
    struct ct_events_in columns;
    int in_events;
    uint64_t next_number, last_ns;
};

// Opens a trace, reads all its dictionaries and corrections. 0, or -1 with the error set.
int ct_trace_open(struct ct_trace *t, const char *path, struct ct_error *error);
// The same for a source that is open already; the trace takes it over.
int ct_trace_open_source(struct ct_trace *t, struct ct_error *error);
// Back to the first event.
void ct_trace_rewind(struct ct_trace *t);
// Next event: 1, or 0 behind the last one. Its ids (thread, api, stack, text) are those of `names`.
int ct_trace_next(struct ct_trace *t, struct ct_event *event, uint64_t *number);
// Whether nothing is missing, from the start of the process to its end, as far as chunks tell.
int ct_trace_whole(const struct ct_trace *t);
void ct_trace_close(struct ct_trace *t);

#endif
