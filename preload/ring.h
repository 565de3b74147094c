// SPDX-License-Identifier: Apache-2.0
// One ring of events for each thread that records: the thread puts in, whoever holds the drain lock
// takes out.
#ifndef CT_RING_H
#define CT_RING_H

#include <stdatomic.h>
#include <stdint.h>

#include <cutrace/format.h>

#define CT_RING_EVENTS 8192u // a power of two
#define CT_RING_FRAMES (CT_MAX_STACK + 64)

// `announced` of a ring whose thread is not publishing.
#define CT_QUIET UINT64_MAX

struct ct_ring {
    // ---- the thread's line
    _Atomic uint64_t head;      // events published, ever
    _Atomic uint64_t announced; // no later than the time of what is being published; or CT_QUIET
    uint64_t last_ns;           // time of the last event published
    _Atomic uint64_t tail_seen; // `tail` as of the last time that the ring looked full
    _Atomic uint32_t thread;    // number of the thread that owns the ring now (threads.h)
    _Atomic uint32_t unwinding; // the thread is inside the unwinder
    // ---- the drainer's line
    _Atomic uint64_t tail __attribute__((aligned(64))); // events taken out, ever
    _Atomic uint64_t lost; // events that found the ring full and are in no LOST record yet
    // ---- both, rarely
    _Atomic uint64_t owner __attribute__((aligned(64))); // claim number << 32 | tid; tid 0: free
    struct ct_ring *next;                                // set before the ring is linked in
    uintptr_t frames[CT_RING_FRAMES];                    // scratch of the unwinder
    struct ct_event events[CT_RING_EVENTS] __attribute__((aligned(64)));
};

// All rings, newest first. Rings are never taken out (only a forked child starts a new list).
struct ct_ring *ct_rings(void);

// The calling thread's ring, claimed at its first use; NULL if there is no memory.
struct ct_ring *ct_ring_mine(void);

// Whether the calling thread has its ring already. Cheap.
struct ct_ring *ct_ring_if_mine(void);

// Publishes an event of the calling thread, times it if it has no time, and sets its thread.
// Returns 0, -ENOSPC if the ring is full, -ENOMEM if there is none, -EBUSY in a signal handler that
// interrupted this very function.
int ct_ring_publish(struct ct_event *event);

// Counts n events of the calling thread as lost.
void ct_ring_lose(uint64_t n);

// Events that are lost without a ring that could tell.
extern _Atomic uint64_t ct_ringless_lost;

// The newest time up to which a drainer may have taken events out; see ct_ring_publish.
extern _Atomic uint64_t ct_watermark;

// CLOCK_MONOTONIC as it is.
uint64_t ct_clock(void);

// A bound for the times of what the ring's thread is just publishing, CT_QUIET if it is not.
uint64_t ct_ring_bound(struct ct_ring *ring);

// A forked child: forgets the parent's rings. Only the forking thread may be running.
void ct_rings_forked(void);

// ---- threads by number ----------------------------------------------------------------------

#define CT_THREADS (1u << 18) // later ones have no number

struct ct_thread {
    uint32_t tid;
    char name[16];
};

// A thread by its number (from 1), or NULL. Numbers are given in the order of first events and are
// not used again, so that a recycled tid is another thread.
struct ct_thread *ct_thread(uint32_t number);

#endif
