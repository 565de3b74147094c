// SPDX-License-Identifier: Apache-2.0
// Drains the rings into the trace. Drain lock held (drain_lock.h), unless a function says
// otherwise.
#ifndef CT_WRITE_DRAIN_H
#define CT_WRITE_DRAIN_H

#include <stdint.h>

enum ct_drain_how {
    CT_DRAIN_EVENTS, // into the open chunk, which is closed at its deadline
    CT_DRAIN_FLUSH,  // closes the open chunk, and all chunks go to the file
    CT_DRAIN_INFO,   // closes the open chunk, with INFO of any age in it
    CT_DRAIN_FINAL,  // both, and marks the last chunk as the end
};

// Moves all events that are published from the rings into the trace. Opens the trace if it is not
// open.
void ct_drain_run(enum ct_drain_how how);

// Moves events from the rings into the open chunk, as far as that needs no chunk to be closed.
// Takes microseconds and does not write to the file (but where one batch brings more new stacks
// than a chunk holds).
void ct_drain_look(void);

// Opens the trace and writes its first chunk, if it is not open yet. Returns 0 or -errno.
int ct_drain_open_trace(void);

// Puts a copy of the open chunk into the file, if it is time for that (write/open_chunk.h). For
// the writer thread, after a drain.
void ct_drain_update_file(void);

// Whether a chunk waits for the disk to take it. Any thread.
int ct_drain_is_stuck(void);

// When the open chunk, or a provisional copy of it, must be in the file (ct_clock_read); 0: nothing
// is new in it. Any thread.
uint64_t ct_drain_deadline_ns(void);

// A forked child starts without a trace, whether or not the forking thread held the lock. Not under
// the lock.
void ct_drain_reinit_child(void);

#endif
