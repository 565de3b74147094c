// SPDX-License-Identifier: Apache-2.0
// One ring of events for each thread that records: the thread puts events in, the holder of the
// drain lock (the drainer) takes them out. Rings lie in the journal (cutrace/format/journal.h has
// their layout), so that they outlive the process. Any thread at any time, unless a function is
// said to be the drainer's.
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
    uint64_t mask;       // bytes of data - 1
    uint64_t told;       // ct_ring_publish returns 1 when the head changes in one of these bits
    uint64_t room_until; // the owner's: head may go up to here without reading the tail again
    _Atomic uintptr_t publishing;       // the owner's: the frame that is publishing, 0: none
    uint64_t begun_at;                  // the owner's: where the newest event begins, or would
    _Atomic uint32_t unwinding;         // the owner is inside the unwinder
    _Atomic uint32_t in_python;         // the owner is walking Python frames
    struct ct_capture *_Atomic capture; // what the owner remembers of its stacks (stack/capture.h)
    struct ct_ring *next;               // set before the ring is linked in
    size_t mapped;                      // bytes at `shared`
    uint32_t claim;                     // another number for each thread that has had the ring
    uint64_t taken;                     // the drainer's: taken out up to here, not committed yet
    uint64_t end;                       // the drainer's: it may take up to here
};

// Before the first ring, and again in a child.
void ct_rings_init(void);

// `open` makes the journal, in which rings lie: called when a thread claims its first ring.
void ct_rings_set_open(void (*open)(void));

// CLOCK_MONOTONIC in ns, strictly increasing within a thread, never 0.
uint64_t ct_ring_now(void);

// Drainer: after this, what a thread did before it read a clock below the caller's newest watermark
// is visible. Returns 0, or -EAGAIN: not this time.
int ct_rings_fence(void);

// All rings, newest first. Rings are never taken out (only a forked child starts a new list).
struct ct_ring *ct_rings(void);

// The calling thread's ring, claimed at its first use; NULL if there is no memory.
struct ct_ring *ct_ring_claim(void);

// Whether the calling thread has its ring already. Cheap.
struct ct_ring *ct_ring_claimed(void);

// Publishes an event of the calling thread, times it if it has no time, and sets its thread.
// Returns 0; 1 if it filled another quarter of the ring, and always if the ring lies apart; -ENOSPC
// if the ring is full, -ENOMEM if there is none, -EBUSY while this thread is in this very function:
// in a signal handler that has interrupted it, and after one that has left it by siglongjmp.
int ct_ring_publish(struct ct_event *event);

// Whether the calling thread's ring lies in private memory although the journal is a file: what is
// in it is lost if the process is killed.
int ct_ring_is_apart(void);

// The address of the frame that is publishing then. To give up is right if that frame is gone: its
// event counts as lost unless it is in the ring.
uintptr_t ct_ring_publishing(void);
void ct_ring_give_up(void);

// Counts n events of the calling thread as lost.
void ct_ring_count_lost(uint64_t n);

// Events that were lost in threads without a ring.
extern _Atomic uint64_t ct_ring_lost_without_ring;

// The newest time up to which a drainer may have taken events out (ring.c, invariant R5).
extern _Atomic uint64_t ct_ring_watermark;

// Whether everything that was published has been taken out: by this thread, by all.
int ct_ring_is_empty(void);
int ct_rings_are_empty(void);

// Drainer: a bound for the time of the event that the ring's thread is publishing, CT_JOURNAL_IDLE
// if it publishes none.
uint64_t ct_ring_announced_bound(struct ct_ring *ring);

// ---- taking out -----------------------------------------------------------------------------

// The record at byte *at of the ring, whose head is known to be further on; moves *at over a gap at
// the end. Only the fields that are present may be read, and only until the tail moves on. (Where
// another program has written to the journal, *at may be after the head, and the record's end
// after the ring's: the drainer looks.)
static inline const struct ct_event *ct_ring_record(const struct ct_ring *r, uint64_t *at) {
    const struct ct_event *e = (const void *)(r->data + (*at & r->mask));
    if (e->present)
        return e;
    *at = (*at | r->mask) + 1;
    return (const void *)r->data;
}

// A forked child: forgets the parent's rings. Only the forking thread may be running.
void ct_rings_reinit_child(void);

// ---- threads by number ----------------------------------------------------------------------

// A thread by its number (from 1), or NULL if it is not known, or not any more. Numbers are given
// in the order of first events and are used once, so that a recycled tid is another thread.
const struct ct_journal_thread *ct_ring_thread(uint32_t number);

#endif
