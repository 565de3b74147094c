// SPDX-License-Identifier: Apache-2.0
// Where the calling thread's own stack lies. Private to stack/.
//
// Recall reads words of the stack before it knows that they are still part of it. These invariants
// make that safe:
//
// T1. Every page of [low, high) is mapped and belongs to the thread's own stack.
//     ct_thread_stack_find extends the range down to a frame only if nothing unmapped lies between
//     that frame and the known range, or the end of the stack: each frame lies less than a page
//     above the one before, so that no guard page fits between them, or every page between the two
//     can be read.
// T2. [low, high) stays mapped for as long as the thread lives. A thread's stack has one mapping
//     with its control block, in which `high` lies; the main thread's ends with what the kernel
//     puts above it. Neither shrinks. (The stack of a fiber may be unmapped at any time. Its frames
//     do not lead to `high` in one piece, so it is never in the range.)
// T3. The range is forgotten when the ring that owns it passes to another thread.
#ifndef CT_THREAD_STACK_H
#define CT_THREAD_STACK_H

#include <stdint.h>

#include "stack/walk.h"

struct ct_thread_stack {
    uintptr_t low, high;             // high 0: not known
    uint32_t attempts_to_skip, skip; // of ct_thread_stack_find, after a search that failed
};

static inline int ct_thread_stack_has(const struct ct_thread_stack *s, uintptr_t address) {
    return s->high && address >= s->low && address < s->high;
}

// The bound for a walk that begins at `base`.
static inline uintptr_t ct_thread_stack_end(const struct ct_thread_stack *s, uintptr_t base) {
    return ct_thread_stack_has(s, base) ? s->high : base + CT_WALK_FAR;
}

// Whether everything from the frame up is the thread's own stack. Searches if that is not known,
// and backs off after a search that failed. Leaves walk->n and walk->inputs as they are. Keeps
// errno.
int ct_thread_stack_find(struct ct_thread_stack *stack, struct ct_ring *ring, struct ct_walk *walk,
                         const struct ct_walk_frame *from);

#endif
