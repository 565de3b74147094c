// SPDX-License-Identifier: Apache-2.0
// When PyTorch gave cached segments back.
#ifndef CT_RELEASE_H
#define CT_RELEASE_H

#include "allocator/what_if.h"
#include "replay/replay.h"

// A thread frees segments, and none of its calls to the driver has failed since its last block:
// empty_cache(), or, with a limit of PyTorch's own, inside a request.
struct ct_release {
    int open;
    uint32_t thread;
    int grew;        // then the thread asked the driver for memory
    uint64_t before; // bytes that PyTorch had reserved
};

// Follows a call to the driver. `failed`: whether one has failed since the thread's last block.
// Returns whether a release begins.
int ct_release_note(struct ct_release *f, const struct ct_replay *r, const struct ct_event *e,
                    int device, int failed);
// Whether what was freed may be garbage (garbage_collection_threshold).
int ct_release_may_be_garbage(const struct ct_release *f, const struct ct_what_if *w);
// Whether an event of a block can end the request inside which the segments were freed. If not,
// empty_cache() freed them.
int ct_release_is_inside_request(const struct ct_release *f, const struct ct_what_if *w,
                                 const struct ct_event *e);

#endif
