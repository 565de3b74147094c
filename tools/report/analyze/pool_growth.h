// SPDX-License-Identifier: Apache-2.0
// Requests that made PyTorch's pool grow or that it refused, and whether what was free in it would have been enough.
// POOL.md has the definitions.
#ifndef CT_GROWTH_H
#define CT_GROWTH_H

#include "replay/replay.h"
#include "replay/torch_pool.h"

enum ct_growth_kind {
    CT_GROWTH_FULL,   // more than all that was free
    CT_GROWTH_PIECES, // no more than was free, but more than the largest free block
    CT_GROWTH_USABLE, // a free block was large enough, but was not taken
    CT_GROWTH_KINDS,
};

struct ct_growth {
    uint64_t event, t_ns;  // of the block-alloc or block-oom that tells the request
    uint64_t before_event; // first call to the driver for it: what was free then counts
    uint64_t requested, obtained;
    struct ct_free_blocks free; // of its class and device
    uint32_t stack, thread;
    int device;
    uint8_t class, kind; // enum ct_torch_pool_class, enum ct_growth_kind
    uint8_t refused;     // by PyTorch: block-oom
    uint8_t driver_refused;
};

// A thread between two events of blocks: what it asked the driver for.
struct ct_asking {
    int open, device;
    uint64_t before_event;
    uint64_t start, end; // what it got, 0: nothing yet
    int maps, refused;
    struct ct_free_blocks of_class[CT_TORCH_POOL_CLASSES];
};

struct ct_growth_count {
    uint64_t grown[CT_GROWTH_KINDS], refused[CT_GROWTH_KINDS];
    uint64_t retries; // requests for which PyTorch gave its cached segments back, and asked again
};

enum {
    CT_GROWTHS_KEPT = 4096
}; // of a run; where there are more, those with the most scattered bytes

struct ct_growths {
    struct ct_asking *asking; // by thread
    size_t thread_count;
    struct ct_growth *list; // PIECES and what was refused, in the order of events
    size_t count, capacity;
    uint64_t left_out;
    struct ct_growth_count device[CT_DEVICES];
};

// Before the event is applied. `counts`: it is to be counted.
void ct_growths_see(struct ct_growths *g, const struct ct_replay *r, const struct ct_event *e,
                    uint64_t number, int counts);
void ct_growths_free(struct ct_growths *g);
// Whether the event's thread has been refused something by the driver since its last block.
int ct_growths_driver_refused(const struct ct_growths *g, const struct ct_event *e);
// Those of a device (an index) whose lack of one piece mattered most: up to `most`, in the order of events. The caller frees it.
struct ct_growth *ct_growths_worst(const struct ct_growths *g, int device, size_t most,
                                   size_t *count);
const char *ct_growth_name(enum ct_growth_kind kind);

#endif
