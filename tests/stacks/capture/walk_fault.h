// SPDX-License-Identifier: Apache-2.0
// Faults in walks by unwind rules, to see that the recorder's comparison with libunwind finds them.
// What includes this is linked with -Wl,--wrap=ct_walk_stack.
#ifndef WALK_FAULT_H
#define WALK_FAULT_H

#include <stdatomic.h>

#include "stack/walk.h"

enum {
    FAULT_RETURN_ADDRESS = 1, // one is another
    FAULT_FRAME_POINTER = 2   // a remembered walk is recalled whatever the frame pointers are now
};
static _Atomic int walk_fault; // 0: none

int __real_ct_walk_stack(struct ct_ring *ring, struct ct_walk *walk,
                         const struct ct_walk_frame *from, uintptr_t end);
int __wrap_ct_walk_stack(struct ct_ring *ring, struct ct_walk *walk,
                         const struct ct_walk_frame *from, uintptr_t end);

int __wrap_ct_walk_stack(struct ct_ring *ring, struct ct_walk *walk,
                         const struct ct_walk_frame *from, uintptr_t end) {
    const int rc = __real_ct_walk_stack(ring, walk, from, end);
    const int fault = atomic_load(&walk_fault);
    if (!rc && fault == FAULT_RETURN_ADDRESS && walk->n > 2)
        walk->frame[walk->n / 2] ^= 16;
    if (!rc && fault == FAULT_FRAME_POINTER)
        walk->inputs = 0;
    return rc;
}

#endif
