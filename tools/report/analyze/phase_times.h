// SPDX-License-Identifier: Apache-2.0
// The phases of a run in the order of time: what each took, kept and gave back. PHASES.md defines
// the figures.
#ifndef CT_PHASE_TIMES_H
#define CT_PHASE_TIMES_H

#include "analyze/live_at.h"
#include "analyze/phase_follow.h"

// More stretches than these are summed by phase.
enum { CT_PHASE_STRETCHES = 48 };

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
    int device; // an index; -1: all
};

struct ct_phase_times {
    struct ct_phase_times_request request;
    struct ct_phase_time *list; // in the order of their begin
    size_t count;
    int by_frames; // of the stacks; else by what the program does
    int summed;    // by phase
    uint64_t lost; // events, as LOST events of the range count them
    // Working state.
    struct ct_replay replay;
    struct ct_phase_follow follow;
    size_t current; // position in the list, + 1
    uint64_t event, last_ns;
    uint64_t tracked[CT_DEVICES], tracked_bytes; // by device, and of the wanted ones
    uint64_t started_ns, idle_ns; // without frames: the end of the start-up, the least idle gap
};

void ct_phase_times_run(struct ct_phase_times *p, struct ct_trace *t,
                        const struct ct_phase_times_request *request);
// What a phase has allocated by stack, the most bytes first. The caller frees the list.
struct ct_holding *ct_phase_time_list(const struct ct_phase_time *time, size_t *count);
void ct_phase_times_free(struct ct_phase_times *p);

#endif
