// SPDX-License-Identifier: Apache-2.0
// One ring of events for each thread that records: the thread puts in, whoever holds the drain lock
// takes out.
//
// How a drainer gets all events in the order of time without stopping anybody:
//   thread:   announced = a bound (seq_cst); read the clock; fill the slot; head++ (release);
//             announced = quiet
//   drainer:  watermark = T = clock (seq_cst); limit = min(T, all announced); read all heads;
//             take events < limit
// Take an event of time t < limit <= T. Its thread read the clock before the drainer did, hence
// announced before that. So the drainer saw either the announcement (then limit <= bound <= t: no),
// or what the thread stored after publishing (then its head, read later, has the event). An event
// whose time was taken earlier, by ct_now, announces that time and looks at the watermark
// afterwards: if a drainer may have gone past it, the event is timed again (either the drainer sees
// the announcement or the thread sees the watermark).
#include "ring.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "recorder.h"

#define THREADS_MAX CT_THREADS

_Atomic uint64_t ct_watermark;
_Atomic uint64_t ct_ringless_lost;

static struct ct_ring *_Atomic rings;
static _Atomic uint32_t claims;
static _Atomic uint32_t threads;
static struct ct_thread *_Atomic thread_table;
// Changes in a forked child, so that its thread-local pointers to the parent's rings are void.
static _Atomic uint32_t generation = 1;

static __thread struct {
    struct ct_ring *ring;
    uint32_t generation;
    uint32_t busy;
    uint64_t last_now;
} self __attribute__((tls_model("initial-exec")));

uint64_t ct_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t ct_now(void) {
    const uint64_t t = ct_clock();
    self.last_now = t > self.last_now ? t : self.last_now + 1;
    return self.last_now;
}

struct ct_ring *ct_rings(void) {
    return atomic_load_explicit(&rings, memory_order_acquire);
}

struct ct_thread *ct_thread(uint32_t number) {
    struct ct_thread *table = atomic_load_explicit(&thread_table, memory_order_acquire);
    return table && number && number < THREADS_MAX ? &table[number] : NULL;
}

// A new number for the calling thread; 0 when there are no more.
static uint32_t thread_number(uint32_t tid) {
    struct ct_thread *table = atomic_load(&thread_table);
    if (!table) {
        struct ct_thread *fresh = ct_pages(THREADS_MAX * sizeof *fresh);
        if (!fresh)
            return 0;
        if (atomic_compare_exchange_strong(&thread_table, &table, fresh))
            table = fresh;
        else
            ct_pages_free(fresh, THREADS_MAX * sizeof *fresh);
    }
    const uint32_t number = atomic_fetch_add(&threads, 1) + 1;
    if (number >= THREADS_MAX) {
        atomic_fetch_sub(&threads, 1);
        return 0;
    }
    table[number].tid = tid;
    (void)prctl(PR_GET_NAME, table[number].name, 0, 0, 0);
    return number;
}

static int thread_is_gone(uint32_t tid) {
    return syscall(SYS_tgkill, getpid(), tid, 0) == -1 && errno == ESRCH;
}

// A ring whose thread has ended. The claim number in `owner` makes a recycled tid another owner.
static struct ct_ring *ring_handed_on(uint64_t me) {
    int looks = 64; // each is a system call
    for (struct ct_ring *r = ct_rings(); r && looks; r = r->next) {
        uint64_t owner = atomic_load_explicit(&r->owner, memory_order_acquire);
        const uint32_t tid = (uint32_t)owner;
        if (tid && tid != (uint32_t)me) {
            looks--;
            if (!thread_is_gone(tid))
                continue;
        }
        if (atomic_compare_exchange_strong(&r->owner, &owner, me))
            return r;
    }
    return NULL;
}

static struct ct_ring *ring_new(uint64_t me) {
    struct ct_ring *r = ct_pages(sizeof *r);
    if (!r)
        return NULL;
    atomic_init(&r->announced, CT_QUIET);
    atomic_init(&r->owner, me);
    r->next = atomic_load(&rings);
    while (!atomic_compare_exchange_weak(&rings, &r->next, r))
        ;
    return r;
}

static __attribute__((noinline)) struct ct_ring *ring_claim(void) {
    const int saved = errno;
    const uint32_t tid = (uint32_t)syscall(SYS_gettid);
    const uint64_t me = (uint64_t)(atomic_fetch_add(&claims, 1) + 1) << 32 | tid;
    struct ct_ring *r = ring_handed_on(me);
    if (!r)
        r = ring_new(me);
    if (r) {
        (void)atomic_load_explicit(&r->head, memory_order_acquire); // what the thread before left
        // It may have been ended in the middle of things.
        atomic_store_explicit(&r->announced, CT_QUIET, memory_order_release);
        atomic_store_explicit(&r->unwinding, 0, memory_order_release);
        atomic_store_explicit(&r->thread, thread_number(tid), memory_order_relaxed);
        self.ring = r;
        self.generation = atomic_load(&generation);
    }
    errno = saved;
    return r;
}

struct ct_ring *ct_ring_if_mine(void) {
    return self.generation == atomic_load_explicit(&generation, memory_order_relaxed) ? self.ring
                                                                                      : NULL;
}

struct ct_ring *ct_ring_mine(void) {
    struct ct_ring *r = ct_ring_if_mine();
    return r ? r : ring_claim();
}

static int ring_is_full(struct ct_ring *r, uint64_t head, unsigned wanted) {
    uint64_t tail = atomic_load_explicit(&r->tail_seen, memory_order_relaxed);
    if (head + wanted - tail <= CT_RING_EVENTS)
        return 0;
    tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    atomic_store_explicit(&r->tail_seen, tail, memory_order_relaxed);
    return head + wanted - tail > CT_RING_EVENTS;
}

static void fill(struct ct_ring *r, uint64_t head, const struct ct_event *event) {
    r->events[head % CT_RING_EVENTS] = *event;
    r->last_ns = event->t_ns;
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

// Tells what was lost before the next event. The drainer does it if no event follows.
static uint64_t fill_lost(struct ct_ring *r, uint64_t head) {
    const uint64_t lost = atomic_exchange_explicit(&r->lost, 0, memory_order_relaxed);
    struct ct_event e = {.present = 0};
    if (!lost)
        return head;
    CT_SET(&e, op, CT_OP_LOST);
    CT_SET(&e, thread, atomic_load_explicit(&r->thread, memory_order_relaxed));
    CT_SET(&e, count, lost);
    CT_SET(&e, t_ns, ct_now());
    fill(r, head, &e);
    return head + 1;
}

// Announces and times the event. The order of the three steps is what the head of this file proves.
static void announce(struct ct_ring *r, struct ct_event *event) {
    if (!CT_HAS(event, t_ns)) {
        // Any time that a drainer has reached is a bound for the clock that is read after it.
        atomic_store_explicit(&r->announced,
                              atomic_load_explicit(&ct_watermark, memory_order_relaxed),
                              memory_order_seq_cst);
        CT_SET(event, t_ns, ct_now());
        return;
    }
    atomic_store_explicit(&r->announced, event->t_ns, memory_order_seq_cst);
    if (event->t_ns < atomic_load_explicit(&ct_watermark, memory_order_seq_cst) ||
        event->t_ns <= r->last_ns)
        event->t_ns = ct_now();
}

static int publish(struct ct_ring *r, struct ct_event *event) {
    const int lost = atomic_load_explicit(&r->lost, memory_order_relaxed) != 0;
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    if (self.last_now < r->last_ns)
        self.last_now =
            r->last_ns; // the ring was another thread's, whose clock reading was bumped ahead
    if (ring_is_full(r, head, lost ? 2 : 1))
        return -ENOSPC;
    if (lost) {
        // Not with the event's own time: the LOST record must come first, so the event is timed
        // after it.
        struct ct_event untimed = {.present = 0};
        announce(r, &untimed);
        head = fill_lost(r, head);
        event->present &= ~CT_BIT(t_ns);
        CT_SET(event, t_ns, ct_now());
    } else {
        announce(r, event);
    }
    CT_SET(event, thread, atomic_load_explicit(&r->thread, memory_order_relaxed));
    if (!event->thread)
        event->present &= ~CT_BIT(thread);
    fill(r, head, event);
    atomic_store_explicit(&r->announced, CT_QUIET, memory_order_release);
    return 0;
}

int ct_ring_publish(struct ct_event *event) {
    struct ct_ring *r = ct_ring_mine();
    if (!r)
        return -ENOMEM;
    if (self.busy)
        return -EBUSY;
    self.busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
    const int rc = publish(r, event);
    atomic_signal_fence(memory_order_seq_cst);
    self.busy = 0;
    return rc;
}

uint64_t ct_ring_bound(struct ct_ring *ring) {
    const int saved = errno;
    uint64_t bound = atomic_load(&ring->announced);
    // Publishing takes tens of nanoseconds, unless the thread loses its core in between.
    for (int i = 0; i < 200 && bound != CT_QUIET; i++)
        bound = atomic_load(&ring->announced);
    // A thread that was cancelled or killed in there must not hold up the others for ever.
    const uint32_t tid = (uint32_t)atomic_load(&ring->owner);
    if (bound != CT_QUIET && tid && thread_is_gone(tid))
        bound = CT_QUIET;
    errno = saved;
    return bound;
}

void ct_ring_lose(uint64_t n) {
    struct ct_ring *r = ct_ring_if_mine();
    atomic_fetch_add_explicit(r ? &r->lost : &ct_ringless_lost, n, memory_order_relaxed);
}

void ct_rings_forked(void) {
    struct ct_ring *next;
    for (struct ct_ring *r = atomic_exchange(&rings, NULL); r; r = next) {
        next = r->next;
        ct_pages_free(r, sizeof *r);
    }
    atomic_store(&threads, 0);
    atomic_fetch_add(&generation, 1);
    self.ring = NULL;
    self.busy = 0;
}
