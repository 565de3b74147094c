// SPDX-License-Identifier: Apache-2.0
// The moments of a traced process: reading the options, opening the trace at the first event, and
// starting over in a forked child.
//
// A fork that goes through the C library runs the atfork handlers below. A child of a bare clone(2)
// runs none; it is recognised by a page that the kernel clears in every child (MADV_WIPEONFORK),
// which ct_tracing_is_on looks at.
#define _GNU_SOURCE
#include "record/tracing.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/base_libc.h"
#include "base/files.h"
#include "base/loader_gate.h"
#include "base/options.h"
#include "base/pages.h"
#include "base/wait.h"
#include "record/annotation_state.h"
#include "record/rescan.h"
#include "record/survey.h"
#include "record/wakeup.h"
#include "record/writer_thread.h"
#include "stack/capture.h"
#include "stack/unwind.h"
#include "store/journal.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "write/drain.h"
#include "write/drain_lock.h"
#include "write/info_table.h"

extern char **environ;

_Atomic int ct_tracing_decision;

enum { NOT_OPEN, OPENING, OPEN };
static _Atomic int opened;

static _Atomic int exiting;
// A child of a bare clone(2), in which the C library's locks may be held for ever.
static _Atomic int is_bare;

enum { UNWATCHED, SETTING_UP, WATCHING };
static _Atomic int watching;     // set once; children inherit it
static _Atomic int has_handlers; // pthread_atfork was called
// 1, on a page that the kernel clears in every child; NULL before it is set up.
static _Atomic int *_Atomic alive;

// ---- forks ----------------------------------------------------------------------------------

static struct {
    struct ct_signal_guard guard;
    int drain, loader, stacks; // 0: held
} held;
static _Atomic int forking;
// This thread's fork holds them. Two threads may fork at a time; the second one holds nothing.
static __thread int holds;

// What the child needs must not be in another thread's hands while the process is copied. All waits
// are bounded: if another thread does not let go, the child starts from what it can trust.
static void before_fork(void) {
    const int saved = errno;
    int not_forking = 0;
    if (!(holds = atomic_compare_exchange_strong(&forking, &not_forking, 1)))
        return;
    held.stacks = ct_unwind_hold();
    held.loader = ct_loader_gate_close();
    held.drain = ct_drain_lock_wait(&held.guard, 20);
    errno = saved;
}

static void after_fork_in_parent(void) {
    if (!holds)
        return;
    if (!held.drain)
        ct_drain_lock_release(&held.guard);
    if (!held.loader)
        ct_loader_gate_open();
    ct_unwind_release();
    atomic_store(&forking, 0);
}

// The child has no trace, no ring and no writer thread yet; the parent's stay the parent's.
static void reinit_child(void) {
    ct_capture_reinit_child(); // needs the rings
    ct_rings_reinit_child();
    ct_annotation_counts_reinit_child(ct_annotation_nest_reinit_child());
    ct_clock_reinit_child();
    ct_files_reinit_child();
    ct_drain_reinit_child();
    ct_wakeup_after_fork();
    ct_writer_thread_after_fork();
    ct_survey_reinit_child();
    ct_unwind_release();
    ct_stack_table_reinit_child();
    atomic_store(&opened, NOT_OPEN);
    atomic_store(&is_bare, 0);
    atomic_store(&exiting, 0);
    atomic_store(&forking, 0);
    // By a thread that the child does not have.
    if (atomic_load(&ct_tracing_decision) == CT_TRACING_DECIDING)
        atomic_store(&ct_tracing_decision, CT_TRACING_UNDECIDED);
    if (alive)
        atomic_store(alive, 1);
}

static void after_fork_in_child(void) {
    const int saved = errno;
    // A lock of the unwinder, or of the loader, which the unwinder takes, may be held for ever.
    const int loader_is_busy = ct_loader_gate_is_busy();
    const int stacks_are_busy = holds ? held.stacks : ct_unwind_is_busy();
    if (loader_is_busy || stacks_are_busy)
        ct_capture_disable();
    reinit_child();
    if (loader_is_busy)
        (void)ct_loader_gate_close(); // the loader is not asked again
    if (holds && !held.drain)
        ct_signal_guard_leave(&held.guard);
    errno = saved;
}

// A forked child whose atfork handlers did not run. The C library's did not run either: its heap
// and the loader may be locked for ever. So no thread may be created here (it calls malloc), and
// dl_iterate_phdr is not called.
static void reinit_bare_child(void) {
    if (ct_unwind_is_busy() || ct_loader_gate_is_busy())
        ct_capture_disable();
    reinit_child();
    atomic_store(&is_bare, 1);
    (void)ct_loader_gate_close();
}

// Runs before the destructor that ends the trace: the loader registered that one first.
static void note_exit_status(int status, void *unused) {
    (void)unused;
    ct_info_set("process.exit_status", "%d", status & 0xff); // what a parent gets of it
}

static void set_up_watch(void) {
    _Atomic int *mark = ct_pages_wiped_on_fork();
    if (mark) {
        atomic_store(mark, 1);
        alive = mark;
    }
    // Another thread may have registered them and lost its core since.
    if (!atomic_exchange(&has_handlers, 1)) {
        (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        ct_base_libc_at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
        (void)on_exit(note_exit_status, NULL);
    }
    ct_capture_init();
}

static int is_alive(void) {
    return !alive || atomic_load_explicit(alive, memory_order_relaxed);
}

static __attribute__((noinline)) int watch_forks_slow(void) {
    const int saved = errno;
    int unwatched = UNWATCHED;
    if (!is_alive())
        reinit_bare_child();
    if (atomic_compare_exchange_strong(&watching, &unwatched, SETTING_UP)) {
        set_up_watch();
        atomic_store(&watching, WATCHING);
    }
    int stale = SETTING_UP; // a fork has left that thread behind: the next one sets up
    if (ct_wait_while(&watching, SETTING_UP))
        atomic_compare_exchange_strong(&watching, &stale, UNWATCHED);
    errno = saved;
    return atomic_load(&watching) == WATCHING;
}

// Whether a fork of this process will be noticed; sees to it at the first call.
static int watch_forks(void) {
    if (atomic_load_explicit(&watching, memory_order_acquire) == WATCHING && is_alive())
        return 1;
    return watch_forks_slow();
}

// ---- switches -------------------------------------------------------------------------------

static int prepare_capture(void) {
    return ct_tracing_is_on() && watch_forks();
}

static __attribute__((noinline)) int decide(void) {
    const int saved = errno;
    int undecided = CT_TRACING_UNDECIDED;
    if (atomic_compare_exchange_strong(&ct_tracing_decision, &undecided, CT_TRACING_DECIDING)) {
        ct_rings_set_open(ct_tracing_open);
        ct_capture_set_prepare(prepare_capture);
        (void)ct_info_add_source(ct_capture_publish_info);
        atomic_store(&ct_tracing_decision,
                     ct_options_read(environ, ct_options_say) ? CT_TRACING_ON : CT_TRACING_OFF);
    }
    int stale = CT_TRACING_DECIDING; // a fork has left that thread behind: the next one decides
    if (ct_wait_while(&ct_tracing_decision, CT_TRACING_DECIDING))
        atomic_compare_exchange_strong(&ct_tracing_decision, &stale, CT_TRACING_UNDECIDED);
    errno = saved;
    return atomic_load(&ct_tracing_decision) == CT_TRACING_ON;
}

static int is_switched_off(void) {
    const struct ct_journal *j = ct_journal_get();
    return j && atomic_load_explicit(&j->control, memory_order_relaxed) & CT_CONTROL_OFF;
}

int ct_tracing_is_on(void) {
    const int known = atomic_load_explicit(&ct_tracing_decision, memory_order_acquire);
    if (__builtin_expect(!is_alive(), 0)) // else this child would write into its parent's journal
        (void)watch_forks();
    return known >= CT_TRACING_ON ? known == CT_TRACING_ON && !is_switched_off() : decide();
}

// ---- the first event --------------------------------------------------------------------------

static void open_trace(void) {
    struct ct_signal_guard guard;
    ct_rings_init();
    if (!ct_drain_lock_try(&guard)) {
        (void)ct_drain_open_trace();
        ct_drain_lock_release(&guard);
    }
    atomic_store_explicit(&opened, OPEN, memory_order_release);
    if (!atomic_load(&exiting) && !atomic_load(&is_bare))
        (void)ct_writer_thread_start();
}

static __attribute__((noinline)) void open_slow(void) {
    static __thread int inside; // a signal handler, or a call from within, is not recorded
    int not_open = NOT_OPEN;
    (void)watch_forks();
    if (!ct_tracing_is_on() || inside)
        return;
    const int saved = errno;
    inside = 1;
    if (atomic_compare_exchange_strong(&opened, &not_open, OPENING)) {
        if (!atomic_load(&exiting) && !atomic_load(&is_bare))
            ct_files_start();
        ct_rescan(); // before the writer thread, so that the first event has its Python frames
        open_trace();
    }
    (void)ct_wait_while(&opened, OPENING);
    inside = 0;
    errno = saved;
}

int ct_tracing_is_open(void) {
    return atomic_load_explicit(&opened, memory_order_acquire) == OPEN && is_alive();
}

void ct_tracing_open(void) {
    if (!ct_tracing_is_open())
        open_slow();
}

void ct_tracing_begin_exit(void) {
    atomic_store(&exiting, 1);
}

int ct_tracing_is_exiting(void) {
    return atomic_load_explicit(&exiting, memory_order_relaxed);
}
