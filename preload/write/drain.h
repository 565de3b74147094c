// SPDX-License-Identifier: Apache-2.0
// From the rings into the file: draining, and the thread that does it.
#ifndef CT_WRITER_H
#define CT_WRITER_H

#include <stdint.h>

#include "base/signal_guard.h"

// The drain lock. Everything that is "drainer only" in the other headers belongs to its holder.
// Hooks only ever try it. Takes up the shield, too. Returns 0, or -EBUSY.
int ct_drain_lock_try(struct ct_shield *shield);
// Waits up to `ms` milliseconds for it; for the writer thread, exit and fork.
int ct_drain_lock_wait(struct ct_shield *shield, unsigned ms);
void ct_drain_lock_release(struct ct_shield *shield);

enum ct_drain_how {
    CT_DRAIN_EVENTS, // into the chunk that is being filled; that into the file if it is time
    CT_DRAIN_FLUSH,  // all of it into the file
    CT_DRAIN_INFO,   // with INFO, whatever its age
    CT_DRAIN_FINAL,  // marks the last chunk as the end
};

// Takes what has been published out of the rings. Lock held.
void ct_drain_run(enum ct_drain_how how);

// Opens the trace and writes its first chunk, if it is not open yet. Lock held. 0 or -errno.
int ct_drain_open_trace(void);

// The next chunk begins a new generation of dictionaries. Lock held.
void ct_drain_new_generation(void);

// Whether a chunk waits for the disk to take it.
int ct_drain_is_stuck(void);

// When the chunk that is being filled should go to the file, on ct_clock; 0 if it is empty.
// For the writer thread.
uint64_t ct_drain_deadline_ns(void);

// A forked child, whose forking thread held the lock or not.
void ct_drain_reinit_child(void);

#endif
