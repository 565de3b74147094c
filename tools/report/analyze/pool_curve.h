// SPDX-License-Identifier: Apache-2.0
// PyTorch's pool over time: its figures at evenly spread instants, and the most fragmented state
// between each two of them. After a device's last request for memory, no state is the worst: free
// memory that nothing asks for any more obstructs nothing.
#ifndef CT_POOL_CURVE_H
#define CT_POOL_CURVE_H

#include "replay/replay.h"
#include "replay/torch_pool.h"

// `known` of figures is 0 where there was no block yet, or what was live is not known.
struct ct_pool_curve_point {
    uint64_t t_ns; // the instant
    struct ct_torch_pool_totals figures;
    // Since the instant before: the state with the most free bytes outside the largest free block;
    // not known after the last request.
    uint64_t worst_ns;
    struct ct_torch_pool_totals worst;
};

// The last request for memory of a device, and the worst state of its point up to then.
struct ct_pool_curve_request {
    unsigned point; // + 1; 0: there was no request
    int outdated;   // the point has got a worse state since
    uint64_t worst_ns;
    struct ct_torch_pool_totals worst;
};

struct ct_pool_curve {
    uint64_t from_ns, to_ns;
    unsigned points;                                 // 0: no curve is wanted
    unsigned passed;                                 // number of instants that lie in the past
    uint64_t next_ns;                                // the first instant that does not
    struct ct_pool_curve_point *devices[CT_DEVICES]; // NULL: no block was seen
    struct ct_pool_curve_request request[CT_DEVICES];
};

void ct_pool_curve_init(struct ct_pool_curve *c, uint64_t from_ns, uint64_t to_ns, unsigned points);
// Records the instants before t_ns. Call it before an event of that time is applied, and at the end
// with UINT64_MAX.
void ct_pool_curve_advance(struct ct_pool_curve *c, const struct ct_replay *r, uint64_t t_ns);
// Leaves out the instants before t_ns: what was live then is not known.
void ct_pool_curve_skip(struct ct_pool_curve *c, uint64_t t_ns);
// Updates the worst state. Call it after an event that may have changed the pool of a device (an
// index). `is_request`: it asked for memory of the device.
void ct_pool_curve_update(struct ct_pool_curve *c, const struct ct_replay *r, int device,
                          uint64_t t_ns, int is_request);
// To be called at the end: forgets the worst states after the last requests.
void ct_pool_curve_finish(struct ct_pool_curve *c);
void ct_pool_curve_free(struct ct_pool_curve *c);

#endif
