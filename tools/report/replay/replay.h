// SPDX-License-Identifier: Apache-2.0
// The state of a process and its devices after each event. No I/O: events go in, state comes out.
#ifndef CT_REPLAY_H
#define CT_REPLAY_H

#include <cutrace/model/readings.h>

#include "replay/readahead.h"
#include "replay/torch_pool.h"

// What events will look at is fetched so many steps before.
enum { CT_REPLAY_PREFETCH = 16 };

struct ct_replay {
    struct ct_live live;
    struct ct_readings readings;
    struct ct_torch_pool pool; // if `tiles`, which is set before the first event: else not looked at
    int tiles;
    uint8_t
        *foreign; // if `tiles`: of each stack, whether a MemPool's own allocator called the driver
    size_t foreign_count;
    uint64_t resets;        // how often the state began anew behind a gap
    struct ct_readahead *ahead; // while a trace is followed
    const struct ct_readahead_batch *batch;
    unsigned at;             // in the batch: the step that comes next
    uint64_t hash[CT_REPLAY_PREFETCH]; // of the steps behind it
};

// `changed` (may be NULL) is told of what joins and leaves the live totals.
void ct_replay_init(struct ct_replay *r,
                    void (*changed)(void *user, const struct ct_object *object, int sign),
                    void *user);
void ct_replay_free(struct ct_replay *r);
// Gives back the memory of the objects; totals and readings stay. Nothing can be applied any more.
void ct_replay_release(struct ct_replay *r);
// The trace's next event, not applied yet, or NULL behind the last one; it is good until the next call. Applies what
// checkpoints say before it. The trace must be at its beginning at the first call, and is the replay's from then on, until
// NULL was returned or ct_replay_stop called.
const struct ct_event *ct_replay_next(struct ct_replay *r, struct ct_trace *t, uint64_t *number);
// No more events of the trace are wanted: it is the caller's again. (Called by ct_replay_free, too.)
void ct_replay_stop(struct ct_replay *r);
void ct_replay_apply(struct ct_replay *r, const struct ct_event *e, uint64_t number);

// How a device's memory is used now.
struct ct_breakdown ct_replay_split(const struct ct_replay *r, int device);

#endif
