// SPDX-License-Identifier: Apache-2.0
// The state of a process and its devices after each event of a trace: what is live, the readings,
// PyTorch's pools.
#ifndef CT_REPLAY_H
#define CT_REPLAY_H

#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

#include "replay/readahead.h"
#include "replay/torch_pool.h"

struct ct_replay {
    struct ct_live live;
    struct ct_readings readings;
    int has_no_readings; // set before the first event: nobody looks at them
    int tiles;           // set before the first event: replay the blocks of PyTorch's pools, too
    struct ct_segment_watch watch; // set before the first event; zero if nobody watches
    // Called before a gap makes the state unknown, while it is still that of the last event.
    // `number`, `t_ns`: of the first event after the gap. May be NULL. Returns whether the replay
    // goes on.
    int (*before_gap)(void *gap_user, uint64_t number, uint64_t t_ns);
    void *gap_user;
    int has_begun; // an event was returned
    int is_known;  // what is live: no event is missing, or a checkpoint has restored it since
    struct ct_torch_pool pool;
    uint8_t *foreign; // for ct_torch_segments_foreign_stacks: `foreign_count` of them
    size_t foreign_count;
    struct ct_resumers resumers;
    uint64_t resets;            // how often a checkpoint was to restore the state after a gap
    uint64_t gaps;              // resets, and the gaps that no checkpoint follows
    struct ct_readahead *ahead; // of the trace that is being replayed, or NULL
    const struct ct_readahead_batch *batch;
    unsigned at, batch_steps; // the next step in the batch, and how many it has
    uint64_t reading_ahead;   // of the step before it: see ct_readings_apply_ahead
    int with_host[CT_DEVICES], is_host_node[CT_DEVICES]; // of each device: ct_device_usage
    uint64_t cuda_total[CT_DEVICES]; // bytes of each device, as CUDA reports them; 0: unknown
};

void ct_replay_init(struct ct_replay *r);
void ct_replay_free(struct ct_replay *r);
// Frees the objects. Totals and readings stay; no event can be applied any more.
void ct_replay_release(struct ct_replay *r);
// What ct_replay_next does where the next step of the batch is not an event.
const struct ct_event *ct_replay_next_slow(struct ct_replay *r, struct ct_trace *t,
                                           uint64_t *number);

// Returns the next event, which the caller applies, or NULL after the last one; valid until the
// next call. Restores the state from checkpoints before it. At the first call the trace must be at
// its first event, or have been sought (ct_trace_seek). It belongs to the replay until NULL was
// returned or ct_replay_stop called.
static inline const struct ct_event *ct_replay_next(struct ct_replay *r, struct ct_trace *t,
                                                    uint64_t *number) {
    const struct ct_readahead_step *s = r->at < r->batch_steps ? &r->batch->step[r->at] : NULL;
    if (!s || s->step != CT_STEP_EVENT)
        return ct_replay_next_slow(r, t, number);
    r->at++;
    r->reading_ahead = s->ahead;
    *number = s->number;
    return &s->event;
}

// Gives the trace back before its end. (ct_replay_free does, too.)
void ct_replay_stop(struct ct_replay *r);
void ct_replay_apply(struct ct_replay *r, const struct ct_event *e, uint64_t number);

// How the memory of a device is used now.
struct ct_breakdown ct_replay_split(const struct ct_replay *r, int device);

// ---- listeners ----------------------------------------------------------------------------------
// What hears the events of a pass (question/pass.h). Replaying takes nearly all of the time of a
// pass, and what an analysis does with an event hardly any: so several share one.

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
