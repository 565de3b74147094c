// SPDX-License-Identifier: Apache-2.0
// A trace as a stream of events, with its journal. Each event has its final result, and ids that
// mean the same in the whole trace.
#ifndef CT_TRACE_H
#define CT_TRACE_H

#include <cutrace/format/decode.h>
#include <cutrace/model/history.h>

#include "base/error.h"
#include "read/amends.h"
#include "read/bounds.h"
#include "read/definitions.h"
#include "read/index.h"
#include "read/journal_read.h"
#include "read/source.h"
#include "read/unpack.h"

struct ct_trace {
    // Set by the caller before opening.
    int no_journal; // do not read the journal
    int sealing;    // treat the process as ended, whatever the journal says
    int details;    // apply late durations and stacks of frees, too
    void (*progress)(void *user, uint64_t done, uint64_t total); // bytes of the file; may be NULL
    void *progress_user;

    struct ct_source source;
    struct ct_index index;
    struct ct_definitions definitions;
    uint64_t events;         // numbered events in the readable chunks, by their prefixes
    uint64_t missing_events; // by the gaps in the numbers: in chunks that are missing or unreadable
    uint64_t first_event;    // number of the first event in the trace, 0 if nothing was overwritten
    uint64_t t_first_ns, t_last_ns;
    uint64_t start_ns; // time 0 of the views
    int ended;         // the process ended in good order, and the last chunk is here
    int sealed;        // the process was killed, and everything up to that is here
    int running;       // the process still records
    int incomplete;    // none of these: the end of the trace is missing
    uint64_t torn;     // events that were being recorded when the process was killed

    // A part of another trace (INFO trim.*): events of it that are not here, before the first one
    // and after the last one; the other one's end was missing.
    uint64_t trimmed_before, trimmed_after;
    int end_was_missing;

    // A ring file.
    uint64_t overwritten_events;
    uint64_t overwritten_before; // number of the first event after the last of them
    int exact;                   // the state at the end is known in full
    uint64_t exact_from_ns;      // since when it is; 0: since the start of the process
    struct ct_history *history;  // the newest one, or NULL
    uint64_t history_before;     // it covers the events before this one
    struct ct_seek_points seek_points;

    // The journal.
    int journal_found; // 1: it was read; 0: there is none; -1: it cannot be used
    struct ct_journal_contents journal;
    struct ct_error journal_error;

    // The reader's own.
    struct ct_unpacker unpacker;
    struct ct_amends amends;
    size_t chunk;      // the current one
    struct ct_in rest; // of its body, after the section in `columns`
    struct ct_decoder columns;
    struct ct_in body_of_chunk;
    int in_events, in_checkpoint; // what `columns` reads
    int checkpoint_done;          // in the current chunk
    int has_sought;               // the trace is read from `sought` on
    struct ct_seek_point sought;
    struct ct_size_bounds sizes; // of the current chunk
    uint64_t next_number, last_ns;
    uint64_t outside; // with `details`: events at times that are not those of their chunk
    uint64_t records; // in the bodies that were opened (bounds.h)
    size_t end;       // 0: all chunks are read; else those before this one (trace_part.h)
};

enum ct_step {
    CT_STEP_END,
    CT_STEP_EVENT,
    // Events are missing, and no checkpoint says what became of the state. With the number and the
    // time of the first event after them.
    CT_STEP_GAP,
    // Events are missing: a checkpoint begins, or nothing that was known is of use. With the number
    // and the time of the first event after them.
    CT_STEP_RESET,
    CT_STEP_OBJECT,   // an object of a checkpoint, as the event that created it, with its number
    CT_STEP_COMPLETE, // the checkpoint has no more objects
};

// Opens a trace; reads all its dictionaries and corrections. 0, or -1 with the error set.
int ct_trace_open(struct ct_trace *t, const char *path, struct ct_error *error);
// The same with t->source, which is open already. The trace closes it.
int ct_trace_open_source(struct ct_trace *t, struct ct_error *error);
// The same with files that the caller has opened, whatever their names lead to now. The trace
// closes them. `name`: for messages; it must last.
struct ct_trace_files {
    const char *name;
    int trace, journal; // -1: there is none
};
int ct_trace_open_files(struct ct_trace *t, const struct ct_trace_files *files,
                        struct ct_error *error);
// Goes back to the first event.
void ct_trace_rewind(struct ct_trace *t);
// Goes to one of the seek points instead: the next steps restore the state from its checkpoint. The
// events between its parts come, too.
void ct_trace_seek(struct ct_trace *t, const struct ct_seek_point *point);
// Reads the next step, with those that restore the state after a gap.
enum ct_step ct_trace_step(struct ct_trace *t, struct ct_event *event, uint64_t *number);
// Reads the next event: 1, or 0 after the last one. Its ids (thread, api, stack, text) are those of
// the definitions.
int ct_trace_next(struct ct_trace *t, struct ct_event *event, uint64_t *number);
// The number of events that the recorder lost, also where its LOST events were overwritten.
// `counted`: by the LOST events of the range. After the last event.
uint64_t ct_trace_count_unrecorded(const struct ct_trace *t, uint64_t counted);
// The number of lost events: by the recorder, and in missing chunks.
uint64_t ct_trace_count_lost(const struct ct_trace *t, uint64_t counted);
// Finds the time of an event. Goes back to the first event. Returns 0 if the trace does not have
// it.
int ct_trace_find_event(struct ct_trace *t, uint64_t number, uint64_t *t_ns);
// Whether a chunk of the trace has an event, by the prefixes.
int ct_trace_has_event(const struct ct_trace *t, uint64_t number);
// Whether the trace has everything from the start of the process to its end.
int ct_trace_is_complete(const struct ct_trace *t);
// The same, and none was lost in between. `lost`: by ct_trace_count_lost.
int ct_trace_has_every_event(const struct ct_trace *t, uint64_t lost);
// The same, but a ring file may have overwritten the oldest events.
int ct_trace_is_intact(const struct ct_trace *t);
// Decompresses the body of a chunk, valid until the next one is read. 0, or -1: it is unreadable.
int ct_trace_read_body(struct ct_trace *t, size_t chunk, struct ct_in *body);
// The same, with its definitions read: ids of its records are those of ct_definitions_id.
int ct_trace_read_chunk(struct ct_trace *t, size_t chunk, struct ct_in *body);
// The parts of opening a trace, for those who open it in another way (trace_part.h): what the
// chunks say of it, and what INFO does; and the definitions of a chunk's body in the order of their
// kinds, which later kinds refer to, whatever order the sections have (0, or -1: malformed).
void ct_trace_summarize_chunks(struct ct_trace *t);
void ct_trace_summarize_facts(struct ct_trace *t);
int ct_trace_define(struct ct_trace *t, const struct ct_index_chunk *c, struct ct_in body);
// Two more steps of opening: makes what reading bodies needs, and reads what opening reads of a
// body: definitions, corrections, and which part of a checkpoint it has.
void ct_trace_begin_bodies(struct ct_trace *t);
void ct_trace_open_chunk(struct ct_trace *t, size_t chunk);
// The gap in the events in which a time lies, or after which it lies while what is live is not
// known again.
struct ct_trace_gap {
    uint64_t from_ns;  // of the last event before the gap; 0: there is none
    uint64_t next_ns;  // of the first one after it; UINT64_MAX: there is none
    uint64_t known_ns; // since when what is live is known again; UINT64_MAX: it is not
};
// Returns 0 if what is live at the time is known. (After an incomplete trace it counts as known.)
int ct_trace_find_gap(const struct ct_trace *t, uint64_t t_ns, struct ct_trace_gap *gap);
static inline int ct_trace_is_known_at(const struct ct_trace *t, uint64_t t_ns) {
    struct ct_trace_gap gap;
    return !ct_trace_find_gap(t, t_ns, &gap);
}
// Whether what is live is known at any time. Where it never is, views show what the events tell.
int ct_trace_is_ever_known(const struct ct_trace *t);
// The offset in the file where the chunks of the journal belong.
uint64_t ct_trace_append_offset(const struct ct_trace *t);
void ct_trace_close(struct ct_trace *t);

#endif
