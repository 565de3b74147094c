// SPDX-License-Identifier: Apache-2.0
// The call sites of two traces, or of two moments of one, side by side: a row for each that either
// has. Each call site of a side is in exactly one row, so that the rows of a side add up to what it
// holds.
#ifndef CT_MATCH_H
#define CT_MATCH_H

#include "compare/compared_run.h"
#include "compare/site_identity.h"

struct ct_site_row {
    enum ct_holding_kind kind;
    // Of each side: the call site (position of its group), SIZE_MAX if it has none, and how many it
    // has here. There are several where a function was changed and has more than one: which of them
    // is which cannot be told.
    size_t site[CT_SIDES], sites[CT_SIDES];
    uint64_t bytes[CT_SIDES], count[CT_SIDES];
    uint64_t line[CT_SIDES];  // of the innermost frame, 0: none
    uint64_t lines[CT_SIDES]; // a number for those of all its frames
    int library_differs;      // the function is in another library
    uint64_t functions;       // the key without libraries; 0: none is in it
};

struct ct_site_match {
    struct ct_site_row *list; // the largest change first
    size_t count;
    size_t *row[CT_SIDES]; // by group: its row
};

// Groups are sorted: the largest one first.
void ct_site_match_build(struct ct_site_match *m, struct ct_site_identity *d,
                         const struct ct_site_groups *groups[CT_SIDES]);
// Whether call sites are shown as one that may be several, or are at different places.
int ct_site_row_is_merged(const struct ct_site_row *r);
int ct_site_row_has_moved(const struct ct_site_row *r);
void ct_site_match_free(struct ct_site_match *m);

// The phases of two runs side by side: what each phase has allocated of what is live, since when,
// and how fast that grows, and what it took, kept and gave back. The rows add up to what is live on
// each side.

// What a side has of a phase. All 0: nothing.
struct ct_phase_share {
    uint64_t bytes, count; // live at the moment; by the stack that allocated it
    // The phase is one of time, because no stack names any: what it has allocated of what is live
    // is not known. (It is in the row of no known phase.)
    int is_live_unknown;
    uint64_t oldest_ns; // when the oldest of what is live was allocated; 0: not known
    int is_oldest_unknown;
    // The growth an hour of the call sites whose memory is of this phase. Not known where that of
    // one of them is not (compared_run.h), or where a site that grows is of several phases.
    int is_rate_known;
    uint64_t bytes_per_hour;
    // Of all stretches of the phase up to the moment, as in phase_times.h.
    uint64_t stretches, duration_ns, taken_bytes, taken_count, kept_bytes, given_back_bytes,
        given_back_count, peak_bytes;
};

struct ct_phase_row {
    struct ct_phase_at at; // of no known phase: CT_PHASE_UNKNOWN
    int is_idle;           // the row of what is idle in PyTorch's pool, which is of no phase
    struct ct_phase_share side[CT_SIDES];
};

enum ct_phase_state { CT_PHASE_OF_BOTH, CT_PHASE_IS_NEW, CT_PHASE_IS_GONE, CT_PHASE_STATE_UNKNOWN };

struct ct_phase_match {
    struct ct_phase_row *list; // in the order in which A, then B, first has them
    size_t count, room;
    int is_comparable; // both sides know their phases by the same means
};

void ct_phase_match_build(struct ct_phase_match *m, const struct ct_compared_device d[CT_SIDES],
                          struct ct_phases *phases[CT_SIDES],
                          struct ct_call_sites *sites[CT_SIDES]);
// Whether one side only has a phase. Unknown for the rows that are no phase, and where one side
// knows phases of stacks and the other those of time.
enum ct_phase_state ct_phase_match_state(const struct ct_phase_match *m,
                                         const struct ct_phase_row *r);
void ct_phase_match_free(struct ct_phase_match *m);

#endif
