// SPDX-License-Identifier: Apache-2.0
// One pass over a trace for several analyses: replaying takes nearly all of the time of a pass, and
// what an analysis does with an event hardly any.
#ifndef CT_JOINT_PASS_H
#define CT_JOINT_PASS_H

#include "replay/replay.h"

struct ct_joint_analysis {
    void *self;
    // For each event: before it is applied, and after that. `before` returns whether the analysis
    // goes on; if not, it is called no more, and the state is the one that it ends with.
    int (*before)(void *self, const struct ct_replay *r, const struct ct_event *e, uint64_t number);
    void (*behind)(void *self, const struct ct_replay *r, const struct ct_event *e,
                   uint64_t number);
    void (*end)(void *self, const struct ct_replay *r);
    // Before a gap in the events, with the number and the time of the first one after it; the
    // state is still that before it. Returns whether the analysis goes on after it.
    int (*before_gap)(void *self, const struct ct_replay *r, uint64_t number, uint64_t next_ns);
    // As a replay calls them. All but `before` may be NULL.
    void *objects_self; // for these; NULL: `self`
    void (*live_changed)(void *self, const struct ct_object *o, int sign);
    void (*owner_changed)(void *self, const struct ct_object *o, uint32_t by);
    void (*block_changed)(void *self, const struct ct_object *o, int sign);
    void (*segment_changed)(void *self, const struct ct_object *o, int sign);
    int needs_no_readings; // where no analysis of a pass needs them, its replay has none
};

struct ct_joint_member {
    struct ct_joint_analysis of;
    int has_ended;
};

// Must not be moved: its replay refers to it.
struct ct_joint_pass {
    struct ct_replay replay; // behind the last event that an analysis wanted, until it is freed
    struct ct_joint_member *list;
    size_t count, room;
};

void ct_joint_pass_init(struct ct_joint_pass *p);
// Before the pass is run.
void ct_joint_pass_add(struct ct_joint_pass *p, const struct ct_joint_analysis *a);
// Ends with the trace, or where no analysis goes on. Without an analysis it reads nothing.
void ct_joint_pass_run(struct ct_joint_pass *p, struct ct_trace *t);
void ct_joint_pass_free(struct ct_joint_pass *p);

#endif
