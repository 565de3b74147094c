// SPDX-License-Identifier: Apache-2.0
// What hears the events of a pass (question/pass.h). Replaying takes nearly all of the time of a
// pass, and what an analysis does with an event hardly any: so several share one.
#ifndef CT_LISTENERS_H
#define CT_LISTENERS_H

#include "replay/replay.h"

struct ct_listener {
    void *self;
    // The first event, and the first time, after what it wants to hear; 0: it hears all.
    uint64_t end_event, end_ns;
    // For each event: before it is applied, and after that. `before` returns whether the listener
    // goes on; if not, it is called no more, and the state is the one that it ends with.
    int (*before)(void *self, const struct ct_replay *r, const struct ct_event *e, uint64_t number);
    void (*after)(void *self, const struct ct_replay *r, const struct ct_event *e, uint64_t number);
    void (*end)(void *self, const struct ct_replay *r);
    // Before a gap in the events, with the number and the time of the first one after it, if the
    // listener wants that one; the state is still that before it. Returns whether it goes on.
    int (*before_gap)(void *self, const struct ct_replay *r, uint64_t number, uint64_t next_ns);
    // As a replay calls them. All may be NULL, these and those above.
    void *objects_self; // for these; NULL: `self`
    void (*live_changed)(void *self, const struct ct_object *o, int sign);
    void (*owner_changed)(void *self, const struct ct_object *o, uint32_t by);
    void (*block_changed)(void *self, const struct ct_object *o, int sign);
    void (*segment_changed)(void *self, const struct ct_object *o, int sign);
    int needs_no_readings; // where no listener of a pass needs them, its replay has none
    int leads;             // the first listener: the pass ends with it, and the others with that
};

struct ct_listeners {
    const struct ct_replay *replay; // that of the pass
    struct ct_listeners_member {
        struct ct_listener of;
        uint64_t last_event, last_ns; // that it hears
        int has_ended;
    } * list;
    size_t count, room;
};

// Before the pass begins.
void ct_listeners_add(struct ct_listeners *l, const struct ct_listener *listener);

#endif
