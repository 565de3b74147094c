// SPDX-License-Identifier: Apache-2.0
// One ring of events for each thread that records: the thread puts in, whoever holds the drain lock
// takes out. Rings lie in the journal (cutrace/journal.h has their layout), so that they outlive the
// process.
#ifndef CT_RING_H
#define CT_RING_H

#include <stdatomic.h>
#include <stdint.h>

#include <cutrace/format/journal.h>

#include "base/clock.h"

struct ct_capture;

// The process's handle of a ring.
struct ct_ring {
    struct ct_journal_ring *shared;
    uint8_t *data;
    uint64_t mask;                      // bytes of data - 1
    uint64_t room_until;                // head may go up to here without another look at the tail
    _Atomic uint32_t unwinding;         // the thread is inside the unwinder
    _Atomic uint32_t in_python;         // the thread is walking Python frames
    struct ct_capture *_Atomic capture; // its memory for that
    struct ct_ring *next;               // set before the ring is linked in
    size_t mapped;                      // bytes at `shared`
    uint32_t claim;                     // differs for each thread that has had the ring
    uint64_t taken,
        end; // the drainer's: taken out up to here, and not committed yet; what it may take
    uint64_t looked_at; // the drainer's: the head at its last look for a thread alone
};

// Before the first ring, and again in a child.
void ct_rings_init(void);

// `open` makes the journal, in which rings lie: called when a thread claims its first ring.
void ct_rings_set_open(void (*open)(void));

// CLOCK_MONOTONIC in ns, strictly increasing within a thread, never 0.
uint64_t ct_now(void);

// Drainer: what a thread did before its clock showed less than what the caller has stored by now is visible
// afterwards. Returns 0, or -EAGAIN: not this time.
int ct_rings_fence(void);

// Drainer, now and then: looks whether one thread alone records, whose times are then cheaper.
void ct_rings_look(void);

// Whether the calling thread is taken to be it.
int ct_ring_is_alone(void);

// All rings, newest first. Rings are never taken out (only a forked child starts a new list).
struct ct_ring *ct_rings(void);

// The calling thread's ring, claimed at its first use; NULL if there is no memory.
struct ct_ring *ct_ring_mine(void);

// Whether the calling thread has its ring already. Cheap.
struct ct_ring *ct_ring_if_mine(void);

// Publishes an event of the calling thread, times it if it has no time, and sets its thread.
// Returns 0; 1 if it filled another quarter of the ring; -ENOSPC if the ring is full, -ENOMEM if there
// is none, -EBUSY in a signal handler that interrupted this very function.
int ct_ring_publish(struct ct_event *event);

// Counts n events of the calling thread as lost.
void ct_ring_lose(uint64_t n);

// Events that are lost without a ring that could tell.
extern _Atomic uint64_t ct_ringless_lost;

// The newest time up to which a drainer may have taken events out; see ct_ring_publish.
extern _Atomic uint64_t ct_watermark;

// Whether everything that was published has been taken out: by this thread, by all.
int ct_ring_is_empty(void);
int ct_rings_are_empty(void);

// A bound for the times of what the ring's thread is just publishing, CT_JOURNAL_IDLE if it is not.
uint64_t ct_ring_bound(struct ct_ring *ring);

// ---- taking out -----------------------------------------------------------------------------

// The record at byte *at of the ring, whose head is known to be further on; moves *at over a gap at the
// end. Only the fields that are present may be read, and only until the tail moves on.
static inline const struct ct_event *ct_ring_record(const struct ct_ring *r, uint64_t *at) {
    const struct ct_event *e = (const void *)(r->data + (*at & r->mask));
    if (e->present)
        return e;
    *at = (*at | r->mask) + 1;
    return (const void *)r->data;
}

// A forked child: forgets the parent's rings. Only the forking thread may be running.
void ct_rings_forked(void);

// ---- threads by number ----------------------------------------------------------------------

// A thread by its number (from 1), or NULL if it is not known (any more). Numbers are given in the order
// of first events and are not used again, so that a recycled tid is another thread.
const struct ct_journal_thread *ct_thread(uint32_t number);

#endif
