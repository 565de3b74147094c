// SPDX-License-Identifier: Apache-2.0
// One pass over a trace for several analyses, its listeners: replaying takes nearly all of the time
// of a pass, and what an analysis does with an event hardly any. A scan (scan.h) is a pass, too,
// and has listeners beside it.
#ifndef CT_PASS_H
#define CT_PASS_H

#include "replay/replay.h"

struct ct_listener {
    void *self;
    // For each event: before it is applied, and after that. `before` returns whether the listener
    // goes on; if not, it is called no more, and the state is the one that it ends with.
    int (*before)(void *self, const struct ct_replay *r, const struct ct_event *e, uint64_t number);
    void (*after)(void *self, const struct ct_replay *r, const struct ct_event *e, uint64_t number);
    void (*end)(void *self, const struct ct_replay *r);
    // Before a gap in the events, with the number and the time of the first one after it; the
    // state is still that before it. Returns whether the listener goes on after it.
    int (*before_gap)(void *self, const struct ct_replay *r, uint64_t number, uint64_t next_ns);
    // As a replay calls them; not beside a scan. All may be NULL, these and those above.
    void *objects_self; // for these; NULL: `self`
    void (*live_changed)(void *self, const struct ct_object *o, int sign);
    void (*owner_changed)(void *self, const struct ct_object *o, uint32_t by);
    void (*block_changed)(void *self, const struct ct_object *o, int sign);
    void (*segment_changed)(void *self, const struct ct_object *o, int sign);
    int needs_no_readings; // where no listener of a pass needs them, its replay has none
};

struct ct_listeners {
    const struct ct_replay *replay; // that of the pass
    struct ct_listeners_member {
        struct ct_listener of;
        int has_ended;
    } * list;
    size_t count, room;
    int any_before; // one has `before`
};

// Before the pass begins.
void ct_listeners_add(struct ct_listeners *l, const struct ct_listener *listener);
// The pass calls these. Returns whether a listener goes on.
int ct_listeners_before(struct ct_listeners *l, const struct ct_event *e, uint64_t number);
void ct_listeners_after(const struct ct_listeners *l, const struct ct_event *e, uint64_t number);
int ct_listeners_before_gap(struct ct_listeners *l, uint64_t number, uint64_t next_ns);
void ct_listeners_end(struct ct_listeners *l);
void ct_listeners_free(struct ct_listeners *l);

// Must not be moved: its replay refers to it.
struct ct_pass {
    struct ct_replay replay; // after the last event that a listener wanted, until it is freed
    struct ct_listeners listeners;
};

void ct_pass_init(struct ct_pass *p);
// Ends with the trace, or where no listener goes on. Without a listener it reads nothing.
void ct_pass_run(struct ct_pass *p, struct ct_trace *t);
void ct_pass_free(struct ct_pass *p);

#endif
