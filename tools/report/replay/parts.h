// SPDX-License-Identifier: Apache-2.0
// A full pass over one trace in parts, side by side: each between two checkpoints of the recorder.
// SEEK.md says what proves that their sum is that of a pass from the start.
#ifndef CT_PARTS_H
#define CT_PARTS_H

#include <stdatomic.h>

#include "replay/replay.h"

// Checkpoints round times down to such ticks: those of inherited objects are exact up to one.
enum { CT_PART_TICK_NS = 100 };

struct ct_part {
    struct ct_parts *of;
    struct ct_trace trace;      // with a position of its own
    struct ct_seek_point point; // where it is read from; the first part: the start of the trace
    // Its own events are from this one on, and before that one. Those between the checkpoint and
    // the first one belong to the part before, too: the part warms up with them.
    uint64_t from_event, end_event;
    uint64_t warm_ns; // the prefix's time of the first event after the checkpoint
    int is_small;     // it ends before others
    int has_readings;
    struct ct_replay *replay;   // from its first event on
    uint64_t first_ns, last_ns; // of its own events
    uint64_t begun, ended;      // digests of the state at its begin and at its end
    int is_sound;               // it began, and read what a pass from the start reads there
};

struct ct_parts {
    struct ct_part *list; // in the order of the trace
    size_t count;         // 0: the trace is read as a whole
    const struct ct_trace *trace;
    // The first event from which on all are known, by the prefix of its chunk; 0, 0: the trace
    // begins with it. All parts but the first begin after it.
    uint64_t known_event, known_ns;
    atomic_int spare, none;    // processors that no part uses; and 0
    atomic_size_t chunks_read; // for the progress
};

// What is wanted of a trace that is read in parts.
struct ct_parts_request {
    // Behind an event with such a number or time nothing is (UINT64_MAX: all is); the last part has
    // to end there by itself.
    uint64_t last_event, last_ns;
    uint64_t before_event; // all parts begin before that one; UINT64_MAX: anywhere
    // Parts warm up, for a chunk: their replays have readings, which a checkpoint has not in full.
    int warm_up;
};

// Whether a trace may have parts: if not, there is no need to find out what a request asks for.
int ct_parts_are_possible(const struct ct_trace *t);
// Divides a trace that is at rest. Parts of about the same number of events, at most one for each
// processor (base/workers.h).
void ct_parts_begin(struct ct_parts *p, const struct ct_trace *t,
                    const struct ct_parts_request *request);
// `are_used`: what they have found is used; else the trace has to be read as a whole.
void ct_parts_end(struct ct_parts *p, int are_used);

// Of one part, from any thread, with a replay of its own, which has no readings unless parts warm
// up: the first event after the checkpoint, to be called once; and those that follow. They return
// as ct_replay_next does. A part that is not sound may have fewer.
const struct ct_event *ct_part_first(struct ct_part *part, struct ct_replay *r, uint64_t *number);
const struct ct_event *ct_part_next(struct ct_part *part, struct ct_replay *r, uint64_t *number);
// To be called once, with the first event of its own (parts that do not warm up: ct_part_first
// does).
void ct_part_begin(struct ct_part *part, const struct ct_replay *r, const struct ct_event *e);
// Behind the last event. The replay's state can be read until it is freed.
void ct_part_end(struct ct_part *part, struct ct_replay *r);
// Whether an object was live when the part began. Then `t_ns` of it may be up to a tick too early.
static inline int ct_part_inherits(const struct ct_part *part, const struct ct_object *o) {
    return part && ct_object_event(o) < part->from_event;
}
// Between these times an inherited object was allocated.
static inline uint64_t ct_part_earliest_ns(const struct ct_object *o) {
    return o->t_ns / CT_PART_TICK_NS * CT_PART_TICK_NS;
}
static inline uint64_t ct_part_latest_ns(const struct ct_object *o) {
    return ct_part_earliest_ns(o) + CT_PART_TICK_NS - 1;
}
// When all have ended: whether each began in the state in which the one before it ended. If not,
// what they found is worth nothing.
int ct_parts_are_proved(const struct ct_parts *p);
// Then, while the replays are there: what has the exact time of an object that a part inherits, at
// the end of the part that has seen it allocated. NULL: the trace has to be read as a whole.
const struct ct_object *ct_part_find_origin(const struct ct_part *part, unsigned kind, uint64_t key,
                                            uint64_t event);
// Sets the exact times of all allocations that are live at the end of the part. It may be called
// for all parts side by side. Returns 0 if the trace has to be read as a whole.
int ct_part_set_exact_times(const struct ct_part *part);
// Then the same of reservations, memory pools and PyTorch's regions, when the part before has
// theirs.
int ct_part_set_exact_rest(const struct ct_part *part);

// For tests. CUTRACE_REPORT_PARTS=no: every trace is read as a whole. CUTRACE_REPORT_PARTS=tell:
// says on stderr how many parts there were ("scan parts" warm up), and divides a trace however few
// events it has.

#endif
