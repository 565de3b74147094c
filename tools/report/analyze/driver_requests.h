// SPDX-License-Identifier: Apache-2.0
// What each thread asks the driver for. A request is one call, with the failed calls before it that
// it repeats: of the same thread, device and size, without a successful allocation or an event of a
// block in between. PyTorch hands out the block under the lock under which it called the driver, so
// the thread's next event of a block tells whether the calls were PyTorch's.
#ifndef CT_DRIVER_REQUESTS_H
#define CT_DRIVER_REQUESTS_H

#include "replay/replay.h"

// The latest request of a thread. Memory of a device counts as obtained when it is mapped: PyTorch
// creates all parts of a segment before it maps them, and releases them if one is missing.
struct ct_driver_request {
    int open, device;      // device: an index
    uint64_t before_event; // the first call
    uint64_t bytes;        // of each call; 0: not known
    int failed, obtained;  // a call ran out of memory; a call succeeded, the last one
    int maps, in_parts;    // it was mapped; it is created and mapped in parts
    int async;             // of a stream-ordered pool or of a graph
    int freed;             // the thread freed memory of a device after a failure
    uint64_t start, end;   // the memory obtained, if it has an address
    uint64_t obtained_event, obtained_t_ns;
    uint32_t incident; // of the failed calls, + 1; 0: none. The caller's
    struct ct_free_blocks of_class[CT_TORCH_POOL_CLASSES]; // before the first call, with blocks
};

struct ct_driver_requests {
    struct ct_driver_request *list; // two for each thread: memory of a device, all other
    size_t count;
    int has_failed; // a request has
};

// What ct_driver_requests_follow does with all other events.
struct ct_driver_request *ct_driver_requests_follow_slow(struct ct_driver_requests *d,
                                                         const struct ct_replay *r,
                                                         const struct ct_event *e, uint64_t number);

// Follows an event before it is applied. Returns the request that the event belongs to, or NULL:
// - of a call that failed or succeeded: that call's request
// - of a block-alloc: the request that got the memory in which the block lies
// - of a block-oom: PyTorch's request, with its calls, or without calls if the driver was not asked
// The request is valid until the thread's next event.
static inline struct ct_driver_request *ct_driver_requests_follow(struct ct_driver_requests *d,
                                                                  const struct ct_replay *r,
                                                                  const struct ct_event *e,
                                                                  uint64_t number) {
    if ((e->op == CT_OP_FREE || e->op == CT_OP_UNMAP) && !d->has_failed)
        return NULL; // what is freed counts after a failure
    return ct_driver_requests_follow_slow(d, r, e, number);
}

void ct_driver_requests_free(struct ct_driver_requests *d);

#endif
