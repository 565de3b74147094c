// SPDX-License-Identifier: Apache-2.0
// The recorder's interface: publishing events, and the moments of a process (first event, fork,
// exit).
#define _GNU_SOURCE
#include "record/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cutrace/format/hot.h>

#include "base/options.h"
#include "base/pages.h"
#include "base/print.h"
#include "base/wait.h"
#include "stack/capture.h"
#include "store/journal.h"
#include "store/loaded_modules.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "write/drain.h"
#include "write/oom_message.h"
#include "write/symbolizer.h"

extern char **environ;

enum { UNDECIDED, DECIDING, ON, OFF };
static _Atomic int decision;

#define FULL_NS UINT64_C(100000000)
#define FULL_LOOKS 1000u // on a busy machine, all others come between two of them
#define FULL_MOST_NS UINT64_C(1000000000)
#define EXIT_NS UINT64_C(200000000)
enum { NOT_YET, OPENING, OPENED };
static _Atomic int started;    // the trace is being or has been opened in this process
static _Atomic int has_thread; // the writer thread runs
static _Atomic int is_bare;    // a child that was made behind the C library's back
static _Atomic int exiting; // the journal goes: every thread puts its events into the file itself
enum { UNWATCHED, SETTING_UP, WATCHING };
static _Atomic int watching;       // once for a process and all its children
static _Atomic int has_handlers;   // of forks
static _Atomic int *_Atomic alive; // on a page that is empty in a child, however it was made

// ---- switches -------------------------------------------------------------------------------

static void say_unless_quiet(const char *line) {
    if (!CT_OPTION_NUMBER(QUIET))
        ct_print_stderr(line);
}

static __attribute__((noinline)) int decide(void) {
    const int saved = errno;
    int undecided = UNDECIDED;
    if (atomic_compare_exchange_strong(&decision, &undecided, DECIDING))
        atomic_store(&decision, ct_options_read(environ, say_unless_quiet) ? ON : OFF);
    int nobody = DECIDING; // a fork has left it behind: the next one decides
    if (ct_wait_while(&decision, DECIDING))
        atomic_compare_exchange_strong(&decision, &nobody, UNDECIDED);
    errno = saved;
    return atomic_load(&decision) == ON;
}

// `cutrace ctl` may switch recording off for a while.
static int is_switched_off(void) {
    const struct ct_journal *j = ct_journal_get();
    return j && atomic_load_explicit(&j->control, memory_order_relaxed) & CT_CONTROL_OFF;
}

int ct_enabled(void) {
    const int known = atomic_load_explicit(&decision, memory_order_acquire);
    // A child that nobody told of: from here on it would write into its parent's journal.
    if (__builtin_expect(alive && !atomic_load_explicit(alive, memory_order_relaxed), 0))
        (void)ct_watching_forks();
    return known >= ON ? known == ON && !is_switched_off() : decide();
}

uint64_t ct_sample_interval_ns(void) {
    return CT_OPTION_NUMBER(SAMPLE_MS);
}

int ct_free_stacks(void) {
    return CT_OPTION_NUMBER(FREE_STACKS) != 0;
}

// ---- fork -----------------------------------------------------------------------------------

static struct {
    struct ct_signal_guard shield;
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
    held.loader = ct_loader_gate_close();
    held.drain = ct_drain_wait(&held.shield, 20);
    errno = saved;
}

static void after_fork_in_parent(void) {
    if (!holds)
        return;
    if (!held.drain)
        ct_drain_leave(&held.shield);
    if (!held.loader)
        ct_loader_gate_open();
    ct_stacks_release();
    atomic_store(&forking, 0);
}

static void start_afresh(void) {
    ct_rings_forked();
    ct_clock_reinit_child();
    ct_drain_forked();
    ct_writer_forked();
    ct_stacks_release();
    ct_stack_table_reinit_child();
    ct_capture_forked();
    atomic_store(&started, NOT_YET);
    atomic_store(&has_thread, 0);
    atomic_store(&is_bare, 0);
    atomic_store(&exiting, 0);
    atomic_store(&forking, 0);
    if (atomic_load(&decision) == DECIDING)
        atomic_store(&decision, UNDECIDED);
    if (alive)
        atomic_store(alive, 1);
}

static void after_fork_in_child(void) {
    const int saved = errno;
    // The unwinder's locks may be taken for ever, or the loader's, which it takes, too.
    const int loader_is_busy = ct_loader_gate_is_busy();
    if (loader_is_busy || (holds ? held.stacks : ct_stacks_busy()))
        ct_stacks_off();
    start_afresh();
    if (loader_is_busy)
        (void)ct_loader_gate_close(); // nobody asks it again
    if (holds && !held.drain)
        ct_signal_guard_leave(&held.shield);
    errno = saved;
}

static __attribute__((noinline)) int watch_forks(void) {
    const int saved = errno;
    int not_yet = UNWATCHED;
    if (alive && !atomic_load(alive)) {
        // No handler has run: what another thread was doing then is done by nobody now.
        if (ct_stacks_busy() || ct_loader_gate_is_busy())
            ct_stacks_off();
        start_afresh();
        // Nor have the C library's: its heap and the loader may be locked for ever. So no thread is made here, which
        // would take memory from the one, and the other is not asked for its objects.
        atomic_store(&is_bare, 1);
        (void)ct_loader_gate_close();
    }
    if (atomic_compare_exchange_strong(&watching, &not_yet, SETTING_UP)) {
        // A fork that does not go through the C library (clone) is noticed by this page alone.
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        _Atomic int *mark = ct_pages_map(page);
        if (mark && !madvise(mark, page, MADV_WIPEONFORK)) {
            atomic_store(mark, 1);
            alive = mark;
        }
        if (!atomic_exchange(&has_handlers, 1)) // (two who set up: the first one took very long)
            (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        ct_stacks_init();
        atomic_store(&watching, WATCHING);
    }
    int nobody = SETTING_UP; // likewise
    if (ct_wait_while(&watching, SETTING_UP))
        atomic_compare_exchange_strong(&watching, &nobody, UNWATCHED);
    errno = saved;
    return atomic_load(&watching) == WATCHING;
}

int ct_watching_forks(void) {
    if (atomic_load_explicit(&watching, memory_order_acquire) == WATCHING &&
        (!alive || atomic_load_explicit(alive, memory_order_relaxed)))
        return 1;
    return watch_forks();
}

// ---- what is loaded -------------------------------------------------------------------------

static void (*_Atomic look_source)(void);
static _Atomic int look_is_wanted;

void ct_set_look(void (*look)(void)) {
    atomic_store(&look_source, look);
}

void ct_look(void) {
    void (*look)(void) = atomic_load(&look_source);
    atomic_store(&look_is_wanted, 0);
    if (look)
        look();
}

void ct_ask_to_look(void) {
    if (!atomic_exchange(&look_is_wanted, 1) && atomic_load(&has_thread))
        ct_writer_hurry();
}

int ct_look_is_wanted(void) {
    return atomic_load_explicit(&look_is_wanted, memory_order_relaxed);
}

// ---- first event ----------------------------------------------------------------------------

static void open_trace(void) {
    struct ct_signal_guard shield;
    ct_rings_init();
    if (!ct_drain_try(&shield)) {
        (void)ct_drain_open();
        ct_drain_leave(&shield);
    }
    atomic_store_explicit(&started, OPENED, memory_order_release);
    if (!atomic_load(&exiting) && !atomic_load(&is_bare))
        atomic_store(&has_thread, ct_writer_start() == 0);
}

static __attribute__((noinline)) void start(void) {
    static __thread int inside; // a handler that interrupts this, or a call from it, goes without
    int not_yet = NOT_YET;
    (void)ct_watching_forks();
    if (!ct_enabled() || inside)
        return;
    const int saved = errno;
    inside = 1;
    if (atomic_compare_exchange_strong(&started, &not_yet, OPENING)) {
        ct_stacks_look(); // before there is a writer, so that the first event has its stack
        ct_look();
        open_trace();
    }
    (void)ct_wait_while(&started, OPENING);
    inside = 0;
    errno = saved;
}

static int is_started(void) {
    return atomic_load_explicit(&started, memory_order_acquire) == OPENED &&
           (!alive || atomic_load_explicit(alive, memory_order_relaxed));
}

void ct_open(void) {
    if (!is_started())
        start();
}

// ---- choosing -------------------------------------------------------------------------------

// True once in n calls of the thread, at random: every allocation has the same chance, whatever the program's
// rhythm, and none depends on another. (xorshift64*, Vigna 2016.)
CT_COLD int drawn(uint64_t n) {
    static __thread uint64_t state;
    if (!state) { // of threads that begin in succession these differ little: mixed, or so would their first draws
        uint64_t z = (ct_clock_read() ^ (uintptr_t)&state << 20) * UINT64_C(0x9E3779B97F4A7C15);
        z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
        state = (z ^ z >> 31) | 1;
    }
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint64_t)((unsigned __int128)(state * UINT64_C(0x2545F4914F6CDD1D)) * n >> 64) == 0;
}

int ct_is_wanted(const struct ct_event *e) {
    if (__builtin_expect(CT_OPTION_NUMBER(MIN_SIZE) == 0 && CT_OPTION_NUMBER(SAMPLE) == 1, 1) ||
        e->op != CT_OP_ALLOC || (CT_HAS(e, result) && e->result))
        return 1;
    return (!CT_HAS(e, bytes) || e->bytes >= CT_OPTION_NUMBER(MIN_SIZE)) && drawn(CT_OPTION_NUMBER(SAMPLE));
}

// ---- publishing -----------------------------------------------------------------------------

// Drains in this thread, unless another one is just draining.
static __attribute__((noinline)) int drain_here(enum ct_drain_how how) {
    struct ct_signal_guard shield;
    if (ct_drain_try(&shield))
        return -EBUSY;
    ct_drain(how);
    ct_drain_leave(&shield);
    return 0;
}

static int is_patient(uint64_t waited_ns, unsigned looks) {
    return waited_ns < FULL_NS || (looks < FULL_LOOKS && waited_ns < FULL_MOST_NS);
}

// A full ring: this thread empties it, or lets the one that is at it go on for a moment. So it does where another thread
// lost its core while it published: nothing newer can be taken out before that. Events that come faster than they can
// be written are held back by that, not lost, as long as it does not take unreasonably long; then, for as long as
// nothing is taken out at all, they do not wait again.
static __attribute__((noinline)) void publish_slow(struct ct_event *event, int rc) {
    static _Atomic int in_vain;
    const uint64_t start_ns = ct_clock_read();
    for (unsigned looks = 0; rc == -ENOSPC && is_patient(ct_clock_read() - start_ns, looks); looks++) {
        const int busy = drain_here(CT_DRAIN_EVENTS);
        rc = ct_ring_publish(event);
        if (rc == -ENOSPC && !busy && (ct_drain_is_stuck() || atomic_load(&in_vain)))
            break;
        if (rc == -ENOSPC) {
            sched_yield();
            rc = ct_ring_publish(event); // the other one may have made room
        }
    }
    atomic_store(&in_vain, rc == -ENOSPC);
    if (rc < 0)
        ct_ring_lose(1);
}

static int is_exiting(void) {
    return atomic_load_explicit(&exiting, memory_order_relaxed);
}

// The journal is about to go, or is gone. What a thread has published is in the file before its call returns,
// however soon the kernel ends it then. Others may have to come to the end of theirs before.
static void drain_at_exit(int (*is_done)(void)) {
    const uint64_t until = ct_clock_read() + EXIT_NS;
    while ((drain_here(CT_DRAIN_FINAL) || !is_done()) && ct_clock_read() < until)
        sched_yield();
}

// A refused request is in the journal like everything else, and survives what follows; the writer thread is
// woken to put it into the trace and to say it. Without that thread, and at the exit, this one does it.
static __attribute__((noinline)) void after_publish(void) {
    if (is_exiting())
        drain_at_exit(ct_ring_is_empty);
    else if (atomic_load(&has_thread))
        ct_writer_hurry();
    else
        (void)drain_here(CT_DRAIN_FLUSH);
}

// Another quarter of the ring is full.
static __attribute__((noinline)) void crowded(void) {
    if (atomic_load(&has_thread))
        ct_writer_hurry();
    else
        (void)drain_here(CT_DRAIN_EVENTS);
}

void ct_record(struct ct_event *event) {
    if (__builtin_expect(!is_started(), 0))
        start();
    const int rc = ct_ring_publish(event);
    if (__builtin_expect(rc < 0, 0))
        publish_slow(event, rc);
    if (__builtin_expect(ct_is_failed_request(event) || is_exiting(), 0))
        after_publish();
    if (__builtin_expect(atomic_load(&ct_writer_sleeps), 0))
        ct_writer_notice();
    if (__builtin_expect(rc > 0, 0))
        crowded();
}

void ct_amend(struct ct_event *correction) {
    CT_SET(correction, op, CT_OP_AMEND);
    correction->present &= ~CT_BIT(t_ns);
    ct_record(correction);
}

int ct_flush(void) {
    return is_started() ? drain_here(CT_DRAIN_FLUSH) : 0;
}

// ---- exit -----------------------------------------------------------------------------------

static __attribute__((destructor)) void at_exit(void) {
    if (!is_started())
        return;
    const int saved = errno;
    ct_writer_stop();
    (void)drain_here(CT_DRAIN_EVENTS);
    (void)ct_resolve_symbols(2000);
    // What is published later than this drain looks is put into the file by who publishes it.
    atomic_store(&exiting, 1);
    drain_at_exit(ct_rings_are_empty);
    errno = saved;
}
