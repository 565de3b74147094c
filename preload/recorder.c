// SPDX-License-Identifier: Apache-2.0
// The recorder's interface: publishing events, and the moments of a process (first event, fork,
// exit).
#define _GNU_SOURCE
#include "recorder.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"
#include "modules.h"
#include "options.h"
#include "refusal.h"
#include "ring.h"
#include "stacks.h"
#include "text.h"
#include "writer.h"

extern char **environ;

enum { UNDECIDED, DECIDING, ON, OFF };
static _Atomic int decision;

static _Atomic int started;    // the trace is being or has been opened in this process
static _Atomic int has_thread; // the writer thread runs
// The ring of the thread that exits, whose events are written at once; NULL before.
static struct ct_ring *_Atomic exiting;
enum { UNWATCHED, SETTING_UP, WATCHING };
static _Atomic int watching;       // once for a process and all its children
static _Atomic int *_Atomic alive; // on a page that is empty in a child, however it was made

// ---- switches -------------------------------------------------------------------------------

static void say_unless_quiet(const char *line) {
    if (!CT_NUMBER(QUIET))
        ct_say(line);
}

static __attribute__((noinline)) int decide(void) {
    const int saved = errno;
    int undecided = UNDECIDED;
    if (atomic_compare_exchange_strong(&decision, &undecided, DECIDING))
        atomic_store(&decision, ct_options_read(environ, say_unless_quiet) ? ON : OFF);
    // Another thread decides: a matter of microseconds, unless a fork has left it behind.
    for (int i = 0; i < 1000 && atomic_load(&decision) == DECIDING; i++)
        sched_yield();
    errno = saved;
    return atomic_load(&decision) == ON;
}

int ct_enabled(void) {
    const int known = atomic_load_explicit(&decision, memory_order_acquire);
    return known >= ON ? known == ON : decide();
}

uint64_t ct_sample_interval_ns(void) {
    return CT_NUMBER(SAMPLE_MS);
}

int ct_free_stacks(void) {
    return CT_NUMBER(FREE_STACKS) != 0;
}

// ---- fork -----------------------------------------------------------------------------------

static struct {
    struct ct_shield shield;
    int drain, loader, stacks;
} held;
static _Atomic int forking;
// Whether this thread's fork holds them. Two threads may fork at a time; the second holds nothing.
static __thread int holds;

// What the child will need must not be in another thread's hands when the process is copied. All
// waits are bounded: if somebody does not let go, the child starts from what it can trust.
static void before_fork(void) {
    const int saved = errno;
    int nobody = 0;
    if (!(holds = atomic_compare_exchange_strong(&forking, &nobody, 1)))
        return;
    held.stacks = ct_stacks_hold();
    held.loader = ct_loader_hold();
    held.drain = ct_drain_wait(&held.shield, 20);
    if (!held.drain && atomic_load(&started))
        ct_drain(CT_DRAIN_EVENTS);
    errno = saved;
}

static void after_fork_in_parent(void) {
    if (!holds)
        return;
    if (!held.drain)
        ct_drain_leave(&held.shield);
    if (!held.loader)
        ct_loader_release();
    ct_stacks_release();
    atomic_store(&forking, 0);
}

static void start_afresh(void) {
    ct_rings_forked();
    ct_drain_forked();
    ct_writer_forked();
    ct_stacks_release();
    atomic_store(&started, 0);
    atomic_store(&has_thread, 0);
    atomic_store(&exiting, NULL);
    atomic_store(&forking, 0);
    if (atomic_load(&decision) == DECIDING)
        atomic_store(&decision, UNDECIDED);
    if (alive)
        atomic_store(alive, 1);
}

static void after_fork_in_child(void) {
    const int saved = errno;
    // The unwinder's locks may be taken for ever.
    if (holds ? held.stacks : ct_stacks_busy())
        ct_stacks_off();
    start_afresh();
    if (holds && !held.drain)
        ct_shield_down(&held.shield);
    errno = saved;
}

static __attribute__((noinline)) int watch_forks(void) {
    const int saved = errno;
    int not_yet = UNWATCHED;
    if (alive && !atomic_load(alive)) {
        // No handler has run: what another thread was doing then is done by nobody now.
        if (ct_stacks_busy())
            ct_stacks_off();
        start_afresh();
    }
    if (atomic_compare_exchange_strong(&watching, &not_yet, SETTING_UP)) {
        // A fork that does not go through the C library (clone) is noticed by this page alone.
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        _Atomic int *mark = ct_pages(page);
        if (mark && !madvise(mark, page, MADV_WIPEONFORK)) {
            atomic_store(mark, 1);
            alive = mark;
        }
        (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        ct_stacks_init();
        atomic_store(&watching, WATCHING);
    }
    // Another thread is at it: a matter of microseconds, unless a fork has left it behind.
    for (int i = 0; i < 1000 && atomic_load(&watching) == SETTING_UP; i++)
        sched_yield();
    errno = saved;
    return atomic_load(&watching) == WATCHING;
}

int ct_watching_forks(void) {
    if (atomic_load_explicit(&watching, memory_order_acquire) == WATCHING &&
        (!alive || atomic_load_explicit(alive, memory_order_relaxed)))
        return 1;
    return watch_forks();
}

// ---- first event ----------------------------------------------------------------------------

static __attribute__((noinline)) void start(void) {
    struct ct_shield shield;
    int not_yet = 0;
    (void)ct_watching_forks();
    if (!ct_enabled() || !atomic_compare_exchange_strong(&started, &not_yet, 1))
        return;
    const int saved = errno;
    if (!ct_drain_try(&shield)) {
        (void)ct_drain_open();
        ct_drain_leave(&shield);
    }
    if (!atomic_load(&exiting))
        atomic_store(&has_thread, ct_writer_start() == 0);
    errno = saved;
}

static int is_started(void) {
    return atomic_load_explicit(&started, memory_order_relaxed) &&
           (!alive || atomic_load_explicit(alive, memory_order_relaxed));
}

void ct_open(void) {
    if (!is_started())
        start();
}

// ---- publishing -----------------------------------------------------------------------------

// Drains in this thread, unless another one is just draining.
static __attribute__((noinline)) int drain_here(enum ct_drain_how how) {
    struct ct_shield shield;
    if (ct_drain_try(&shield))
        return -EBUSY;
    ct_drain(how);
    ct_drain_leave(&shield);
    return 0;
}

static __attribute__((noinline)) void publish_slow(struct ct_event *event, int rc) {
    // A full ring: this thread empties it, or lets the one that is emptying it go on for a moment.
    for (int i = 0; rc == -ENOSPC && i < 16; i++) {
        if (drain_here(CT_DRAIN_EVENTS))
            sched_yield();
        else
            i = 16; // nothing more can be done
        rc = ct_ring_publish(event);
    }
    if (rc)
        ct_ring_lose(1);
}

static int i_am_exiting(void) {
    const struct ct_ring *ring = atomic_load_explicit(&exiting, memory_order_relaxed);
    return ring && ring == ct_ring_if_mine();
}

// What must be in the file before the caller goes on.
static __attribute__((noinline)) void after_publish(void) {
    if (i_am_exiting()) {
        (void)drain_here(CT_DRAIN_FINAL);
        return;
    }
    // The program may be about to die of this. If another thread is just writing, it is given a few
    // milliseconds to come to its end, and is then asked to come back.
    int rc = drain_here(CT_DRAIN_EVENTS);
    for (int i = 0; i < 500 && rc; i++) {
        sched_yield();
        rc = drain_here(CT_DRAIN_EVENTS);
    }
    if (rc)
        ct_writer_hurry();
}

static void tell_writer(void) {
    const struct ct_ring *ring = ct_ring_if_mine();
    if (atomic_load(&ct_writer_sleeps))
        ct_writer_notice();
    if (!ring || atomic_load_explicit(&ring->head, memory_order_relaxed) % (CT_RING_EVENTS / 2))
        return;
    if (atomic_load(&has_thread))
        ct_writer_hurry();
    else
        (void)drain_here(CT_DRAIN_EVENTS);
}

void ct_record(struct ct_event *event) {
    if (!is_started())
        start();
    const int rc = ct_ring_publish(event);
    if (__builtin_expect(rc != 0, 0))
        publish_slow(event, rc);
    if (__builtin_expect(ct_is_failed_request(event) || i_am_exiting(), 0))
        after_publish();
    tell_writer();
}

void ct_amend(struct ct_event *correction) {
    CT_SET(correction, op, CT_OP_AMEND);
    correction->present &= ~CT_BIT(t_ns);
    ct_record(correction);
}

int ct_flush(void) {
    return is_started() ? drain_here(CT_DRAIN_EVENTS) : 0;
}

// ---- exit -----------------------------------------------------------------------------------

static __attribute__((destructor)) void at_exit(void) {
    struct ct_shield shield;
    if (!is_started())
        return;
    const int saved = errno;
    atomic_store(&exiting, ct_ring_mine());
    ct_writer_stop();
    (void)drain_here(CT_DRAIN_EVENTS);
    (void)ct_resolve_symbols(2000);
    if (!ct_drain_wait(&shield, 1000)) {
        ct_drain(CT_DRAIN_FINAL);
        ct_drain_leave(&shield);
    }
    errno = saved;
}
