// SPDX-License-Identifier: Apache-2.0
// The parts of `frag`: its conclusion, PyTorch's pools, pools of the program.
#ifndef CT_FRAG_PARTS_H
#define CT_FRAG_PARTS_H

#include "analyze/program_pools.h"
#include "analyze/scan.h"
#include "answer/view.h"
#include "answer/view_scan.h"
#include "base/json.h"
#include "layout/segment_blocks.h"

// Prints whether fragmentation made requests of a device (an index) fail, and by which figures.
void ct_frag_conclusion_print(struct ct_view *v, const struct ct_scan *s, int device);

// PyTorch's pools.

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

// Pools of the program (cutrace.h, NVTX heaps).

// Below a head that names the moment. Prints nothing without a pool.
void ct_frag_program_print(struct ct_view *v, const struct ct_program_pools *p);
// A row below an account: how much they have handed out, and of it the largest. Nothing if it is 0.
void ct_frag_program_print_sum(struct ct_view *v, const struct ct_program_pools *p);
// The key `program_pools`; null without a pool.
void ct_frag_program_add_json(struct ct_view *v, struct ct_json *j,
                              const struct ct_program_pools *p);

#endif
