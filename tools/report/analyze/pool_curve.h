// SPDX-License-Identifier: Apache-2.0
// How a pool develops: its figures at evenly spread instants, and its worst moment between each two of them.
#ifndef CT_CURVE_H
#define CT_CURVE_H

#include "replay/replay.h"
#include "replay/torch_pool.h"

struct ct_pool_curve_point {
    uint64_t t_ns;                // the instant
    struct ct_torch_pool_totals at;    // then
    uint64_t worst_ns;            // when the most bytes lay scattered since the instant before
    struct ct_torch_pool_totals worst; // known is 0 where there was no block yet
};

struct ct_pool_curve {
    uint64_t from_ns, to_ns;
    unsigned points;                       // 0: none is wanted
    unsigned at;                           // instants that are past
    uint64_t next_ns;                      // the one that is not
    struct ct_pool_curve_point *of[CT_DEVICES]; // NULL: no block was seen
};

void ct_pool_curve_init(struct ct_pool_curve *c, uint64_t from_ns, uint64_t to_ns, unsigned points);
// Before an event that is applied at t_ns, and at the end with t_ns = UINT64_MAX.
void ct_pool_curve_advance(struct ct_pool_curve *c, const struct ct_replay *r, uint64_t t_ns);
// Behind an event that may have changed the pool of a device.
void ct_pool_curve_update(struct ct_pool_curve *c, const struct ct_replay *r, int device, uint64_t t_ns);
void ct_pool_curve_free(struct ct_pool_curve *c);

#endif
