// SPDX-License-Identifier: Apache-2.0
// The part of `frag` about PyTorch's pools.
#ifndef CT_FRAG_POOL_H
#define CT_FRAG_POOL_H

#include "answer/view_scan.h"
#include "base/json.h"
#include "layout/segment_blocks.h"

// A request that the view names, with the blocks that obstructed it.
struct ct_frag_request {
    struct ct_pool_growth request;
    struct ct_obstruction obstruction;
};

struct ct_frag_requests {
    struct ct_frag_request *list; // in the order of events
    size_t count;
    size_t done; // those before it have their obstruction
};

// Chooses up to `most` requests of a device. Returns whether one of them was obstructed.
int ct_frag_pool_choose_requests(struct ct_frag_requests *q, const struct ct_pool_growths *g,
                                 int device, size_t most);
// Finds the obstructions at an event; call it in a second pass before the event is applied. Returns
// the number of the next event that it has to be called at; UINT64_MAX: there is none.
uint64_t ct_frag_pool_find_obstructions(struct ct_frag_requests *q, const struct ct_replay *r,
                                        uint64_t number);

// Both describe the state `now`; requests and curve are of the whole range. `t_ns`: the time of the
// state.
void ct_frag_pool_print(struct ct_view *v, const struct ct_scan *s, const struct ct_replay *now,
                        const struct ct_frag_requests *q, int device, uint64_t t_ns);
void ct_frag_pool_add_json(struct ct_view *v, struct ct_json *j, const struct ct_scan *s,
                           const struct ct_replay *now, const struct ct_frag_requests *q,
                           int device);

// The same of the state alone, without what PyTorch reported and what the range shows.
void ct_frag_pool_print_state(struct ct_view *v, const struct ct_replay *now, int device,
                              uint64_t t_ns);
void ct_frag_pool_add_state(struct ct_view *v, struct ct_json *j, const struct ct_replay *now,
                            int device);

#endif
