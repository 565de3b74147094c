// SPDX-License-Identifier: Apache-2.0
// The phases of a run in the order of time: what each took, kept and gave back. PHASES.md defines
// the figures.
#ifndef CT_PHASE_TIMES_H
#define CT_PHASE_TIMES_H

#include "analyze/live_at.h"
#include "analyze/phase_follow.h"
#include "analyze/program_marks.h"
#include "replay/replay.h"

// More stretches than these are summed by phase.
enum { CT_PHASE_STRETCHES = 48 };
// Ranges of the program have any number of names: beyond so many rows they share one.
enum { CT_PHASE_RANGES = 128 };

// A stretch of a phase, or all of them.
struct ct_phase_time {
    struct ct_phase_at at;
    uint64_t stretches;
    uint64_t begin_ns, end_ns; // of the first one, of the last one
    uint64_t duration_ns;      // of all
    uint64_t events;
    uint64_t taken_bytes, taken_count, kept_bytes, given_back_bytes, given_back_count;
    uint64_t peak_bytes; // tracked at most
    uint64_t rise_bytes; // the most by which a stretch rose above what was tracked at its begin
    struct ct_map taken; // stack and kind -> bytes
    // The present stretch: its first event, what it took that is live, and of older objects that
    // slept before.
    uint64_t first_event, live_bytes, resumed_bytes;
    uint64_t begin_bytes; // tracked when it began
};

struct ct_phase_times_request {
    struct ct_phases *phases;
    uint64_t from_ns, to_ns;
    uint64_t marks_from_ns, marks_to_ns; // no longer than the trace; both 0: marks are not wanted
    int device;                          // an index; -1: all
};

// Tracked memory, by device, and of the wanted ones.
struct ct_phase_tracked {
    uint64_t of[CT_DEVICES], bytes;
};

enum { CT_PHASE_HEIGHTS = 3000 };

// Where the stacks name no phase: when the start-up ends. Large: on the heap.
struct ct_phase_start_up {
    struct ct_phase_times_request request; // set before the first event
    struct ct_phase_tracked tracked;
    uint64_t first_ns, last_ns;
    // The highest values of tracked memory so far, each at least a 64th higher than the one before:
    // so few that all of them are kept.
    struct {
        uint64_t t_ns, bytes;
    } heights[CT_PHASE_HEIGHTS];
    size_t count;
    uint64_t peak;
};

struct ct_phase_times {
    struct ct_phase_times_request request;
    struct ct_phase_time *list; // in the order of their begin
    size_t count;
    int by_frames; // of the stacks; else by what the program does
    int summed;    // by phase
    uint64_t lost; // events, as LOST events of the range count them
    struct ct_program_marks marks;
    // Working state.
    const struct ct_replay *replay;
    struct ct_phase_follow follow;
    size_t current, paused; // position in the list, + 1; that between two events
    int is_in_range;        // the present event
    uint64_t event, last_ns, seen_ns;
    struct ct_phase_tracked tracked;
    uint64_t started_ns, idle_ns; // without frames: the end of the start-up, the least idle gap
};

// Whether a start-up has to be found in a pass before that of the times.
int ct_phase_times_need_start_up(const struct ct_phase_times_request *request);
// After each event that was applied.
void ct_phase_start_up_note(struct ct_phase_start_up *u, const struct ct_replay *r,
                            const struct ct_event *e);
// Finds a start-up in a pass of its own.
struct ct_listener ct_phase_start_up_listener(struct ct_phase_start_up *u);
// Joins a pass that others share. `u`: used where one is needed.
void ct_phase_times_join(struct ct_phase_times *p, struct ct_listeners *to,
                         const struct ct_phase_times_request *request,
                         const struct ct_phase_start_up *u);
// What a phase has allocated by stack, the most bytes first. The caller frees the list.
struct ct_holding *ct_phase_time_list(const struct ct_phase_time *time, size_t *count);
void ct_phase_times_free(struct ct_phase_times *p);

#endif
