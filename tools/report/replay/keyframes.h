// SPDX-License-Identifier: Apache-2.0
// Where a second replay of a trace may begin, instead of at its start: at checkpoints that a full
// replay has compared with its own state. SEEK.md says what is compared and what is carried over.
#ifndef CT_KEYFRAMES_H
#define CT_KEYFRAMES_H

#include "replay/seam.h"

// The time of an object that a checkpoint may have rounded.
struct ct_exact_time {
    uint64_t object; // event and kind
    uint64_t t_ns;
};

struct ct_exact_times {
    struct ct_exact_time *list; // by object
    size_t count, room;
};

// The state before an event.
struct ct_keyframe {
    struct ct_seek_point point;
    uint64_t event;     // the first one after the checkpoint
    uint64_t latest_ns; // the latest time of the events before it
    uint64_t digest;
    struct ct_exact_times times;
    struct ct_small_state state;
};

struct ct_keyframes {
    struct ct_keyframe **list; // in the order of the trace
    size_t count;
    // Of the replay that takes them.
    size_t next;          // seek point
    uint64_t next_event;  // of it; UINT64_MAX: there is none
    uint64_t latest_ns;   // of all events so far; for tests, see below: UINT64_MAX
    uint64_t taken_event; // of the last keyframe
};

// Before a full replay of the trace.
void ct_keyframes_begin(struct ct_keyframes *k, const struct ct_trace *t);
void ct_keyframes_free(struct ct_keyframes *k);
// Frees what was taken, and goes on taking.
void ct_keyframes_forget(struct ct_keyframes *k);
void ct_keyframes_take(struct ct_keyframes *k, const struct ct_replay *r, const struct ct_trace *t,
                       uint64_t number);

// Appends the keyframes of the next part of the trace (parts.h), which begins with an event and a
// seam. `before`: the replay of the part before, at its end, with exact times.
void ct_keyframes_append(struct ct_keyframes *k, struct ct_keyframes *next, uint64_t from_event,
                         const struct ct_seam *seam, const struct ct_replay *before);

// To be called before each event is applied. `has_past`: something else is known of earlier events
// that a second replay would have to see.
static inline void ct_keyframes_note(struct ct_keyframes *k, const struct ct_replay *r,
                                     const struct ct_trace *t, const struct ct_event *e,
                                     uint64_t number, int has_past) {
    if (__builtin_expect(number >= k->next_event, 0) && !has_past)
        ct_keyframes_take(k, r, t, number);
    if (e->t_ns > k->latest_ns)
        k->latest_ns = e->t_ns;
}

// The last keyframe before which all events have numbers up to `event` and times up to `t_ns`, or
// NULL.
const struct ct_keyframe *ct_keyframes_find(const struct ct_keyframes *k, uint64_t event,
                                            uint64_t t_ns);
// Begins a replay at a keyframe, instead of at the start of the trace: returns the keyframe's
// event, or NULL if the checkpoint has another state. Then the replay cannot be used.
const struct ct_event *ct_keyframe_seek(const struct ct_keyframe *k, struct ct_replay *r,
                                        struct ct_trace *t, uint64_t *number);

// A digest of the live objects, the totals, and PyTorch's pools. Times are compared in ticks.
uint64_t ct_keyframes_digest_part(const struct ct_replay *r, uint64_t tick_ns);

// For tests. CUTRACE_REPORT_SEEK=no: every replay begins at the start, also where its state is at
// hand. CUTRACE_REPORT_SEEK=tell: says on stderr at which event a replay begins. `sought`: NULL if
// at the start.
void ct_keyframes_tell(const struct ct_event *sought, uint64_t number);

#endif
