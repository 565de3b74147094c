// SPDX-License-Identifier: Apache-2.0
// Call stacks, captured in the calling thread and kept once each.
#ifndef CT_STACKS_H
#define CT_STACKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// A stack that was seen. Frames are innermost first; a frame is a native return address (for the
// innermost one, too: all are taken inside a call). Addresses of user space have their top bit
// clear, so that frames of other kinds can be told apart by it when there are any.
struct ct_stack_entry {
    uint64_t hash;
    uint32_t frames;
    uint32_t file_id;         // the drainer's: id in the file's dictionary ...
    uint32_t file_generation; // ... of this generation
    uint32_t reserved;
    uintptr_t frame[];
};

// The stack with an id that ct_stack returned, or NULL.
struct ct_stack_entry *ct_stack_entry(uint32_t id);

// Id of a stack of n frames, 0 when the table is full. Lock-free.
uint32_t ct_stack_intern(const uintptr_t *frames, size_t n);

// Stacks that found the table full.
extern _Atomic uint64_t ct_stacks_full;

// Sets up the unwinder. Before the first ct_stack, by one thread: its own initialisation is not
// safe for several.
void ct_stacks_init(void);

// While held, no thread is inside the unwinder, whose locks a fork would copy. Waits a bounded
// time; returns 0, or -EBUSY if a thread is still inside (then a forked child must do without
// stacks).
int ct_stacks_hold(void);
void ct_stacks_release(void);

// Whether some thread is inside the unwinder.
int ct_stacks_busy(void);

// Switches stacks off in this process from now on.
void ct_stacks_off(void);

#endif
