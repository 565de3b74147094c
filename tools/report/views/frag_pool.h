// SPDX-License-Identifier: Apache-2.0
// The part of `frag` that tells of PyTorch's pools.
#ifndef CT_VIEW_POOL_H
#define CT_VIEW_POOL_H

#include "views/pool_common.h"

// A request that is named, with what was in its way.
struct ct_frag_request {
    struct ct_pool_growth request;
    struct ct_obstruction way;
};

struct ct_frag_requests {
    struct ct_frag_request *list; // in the order of events
    size_t count;
    size_t at; // those before it have been looked at
};

// Chooses up to `most` of a device's.
void ct_frag_pool_choose_requests(struct ct_frag_requests *q, const struct ct_pool_growths *g, int device,
                        size_t most);
// In a second pass, before the event of this number. Returns the number of the next event at which there is something to see.
uint64_t ct_frag_pool_find_obstructions(struct ct_frag_requests *q, const struct ct_replay *r, uint64_t number);

void ct_frag_pool_print(struct ct_view *v, const struct ct_scan *s, const struct ct_frag_requests *q,
                 int device);
void ct_frag_pool_add_json(struct ct_view *v, struct ct_json *j, const struct ct_scan *s,
                       const struct ct_frag_requests *q, int device);

#endif
