// SPDX-License-Identifier: Apache-2.0
// Requests that made PyTorch's pool grow or that it refused, and whether what was free in it would have been enough.
// POOL.md has the definitions.
#ifndef CT_GROWTH_H
#define CT_GROWTH_H

#include "replay/replay.h"
#include "replay/torch_pool.h"

enum ct_growth_cause {
    CT_GROWTH_NOT_ENOUGH_FREE,   // more than all that was free
    CT_GROWTH_FRAGMENTED, // no more than was free, but more than the largest free block
    CT_GROWTH_FIT_UNUSED, // a free block was large enough, but was not taken
    CT_GROWTH_CAUSES,
};

struct ct_pool_growth {
    uint64_t event, t_ns;  // of the block-alloc or block-oom that tells the request
    uint64_t before_event; // first call to the driver for it: what was free then counts
    uint64_t requested, obtained;
    struct ct_free_blocks free; // of its class and device
    uint32_t stack, thread;
    int device;
    uint8_t class, kind; // enum ct_torch_pool_class, enum ct_growth_cause
    uint8_t refused;     // by PyTorch: block-oom
    uint8_t driver_refused;
};

// A thread between two events of blocks: what it asked the driver for.
struct ct_driver_request {
    int open, device;
    uint64_t before_event;
    uint64_t start, end; // what it got, 0: nothing yet
    int maps, refused;
    struct ct_free_blocks of_class[CT_TORCH_POOL_CLASSES];
};

struct ct_pool_growth_counts {
    uint64_t grown[CT_GROWTH_CAUSES], refused[CT_GROWTH_CAUSES];
    uint64_t retries; // requests for which PyTorch gave its cached segments back, and asked again
};

enum {
    CT_POOL_GROWTHS_LISTED = 4096
}; // of a run; where there are more, those with the most scattered bytes

struct ct_pool_growths {
    struct ct_driver_request *asking; // by thread
    size_t thread_count;
    struct ct_pool_growth *list; // PIECES and what was refused, in the order of events
    size_t count, capacity;
    uint64_t left_out;
    struct ct_pool_growth_counts device[CT_DEVICES];
};

// Before the event is applied. `counts`: it is to be counted.
void ct_pool_growth_update(struct ct_pool_growths *g, const struct ct_replay *r, const struct ct_event *e,
                    uint64_t number, int counts);
void ct_pool_growth_free(struct ct_pool_growths *g);
// Whether the event's thread has been refused something by the driver since its last block.
int ct_pool_growth_driver_failed(const struct ct_pool_growths *g, const struct ct_event *e);
// Those of a device (an index) whose lack of one piece mattered most: up to `most`, in the order of events. The caller frees it.
struct ct_pool_growth *ct_pool_growth_pick_worst(const struct ct_pool_growths *g, int device, size_t most,
                                   size_t *count);
const char *ct_pool_growth_cause_name(enum ct_growth_cause kind);

#endif
