// SPDX-License-Identifier: Apache-2.0
// Publishes events into the ring of the calling thread, and deals with what follows: a full ring, a
// failed allocation, the exit of the process.
#define _GNU_SOURCE
#include "record/publish.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cutrace/format/hot.h>
#include <cutrace/model/failures.h>

#include "base/clock.h"
#include "base/options.h"
#include "record/annotation_state.h"
#include "record/survey.h"
#include "record/tracing.h"
#include "record/wakeup.h"
#include "record/writer_thread.h"
#include "stack/enclosing.h"
#include "store/ring.h"
#include "write/drain.h"
#include "write/drain_lock.h"
#include "write/nvml.h"
#include "write/oom_notice.h"

// How long an event waits for room in its ring, and how long the drain lock is tried for a line on
// stderr. On a busy machine, where all other threads run between two tries, until LEAST_TRIES are
// done, at most MOST_NS.
#define FULL_NS UINT64_C(100000000)
#define SAY_NS UINT64_C(150000000)
#define LEAST_TRIES 1000u
#define MOST_NS UINT64_C(1000000000)
#define UNTIL_NS UINT64_C(200000000)
#define NVML_NS UINT64_C(100000000)   // of SAY_NS, for the writer thread with NVML
#define SLOW_NS UINT64_C(10000000000) // how long a slow NVML is not waited for again

// Until when the writer thread is not waited for, because it took too long with the last line.
static _Atomic uint64_t slow_until_ns;

// ---- choosing -------------------------------------------------------------------------------

// True once in n calls of the thread, at random: every allocation has the same chance, whatever the
// program's rhythm, and none depends on another. (xorshift64*, Vigna 2016.)
CT_COLD int is_drawn(uint64_t n) {
    static __thread uint64_t state;
    if (!state) { // seeds of threads that begin in succession differ little: mixed (splitmix64)
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

int ct_publish_wants(const struct ct_event *e) {
    if (__builtin_expect(CT_OPTION_NUMBER(MIN_SIZE) == 0 && CT_OPTION_NUMBER(SAMPLE) == 1, 1) ||
        e->op != CT_OP_ALLOC || (CT_HAS(e, result) && e->result))
        return 1;
    return (!CT_HAS(e, bytes) || e->bytes >= CT_OPTION_NUMBER(MIN_SIZE)) &&
           is_drawn(CT_OPTION_NUMBER(SAMPLE));
}

// ---- a failed call --------------------------------------------------------------------------
// The failing thread's part of a line on stderr. The program may end at once when the call returns
// (_exit, a signal), and PyTorch's allocator waits in its report with its mutex held: so the line
// is printed before, but within a bound.

static int may_try(uint64_t start_ns, unsigned tries, uint64_t ns) {
    const uint64_t waited_ns = ct_clock_read() - start_ns;
    return waited_ns < ns || (tries < LEAST_TRIES && waited_ns < MOST_NS);
}

// Drains this thread's events; then it is known whether a line waits. Returns 0, or -EBUSY.
static int drain_own(uint64_t start_ns) {
    struct ct_signal_guard guard;
    for (unsigned tries = 0; may_try(start_ns, tries, SAY_NS); tries++) {
        if (!ct_drain_lock_try(&guard)) {
            ct_drain_look();
            ct_drain_lock_release(&guard);
        }
        if (ct_ring_is_empty())
            return 0;
        sched_yield();
    }
    return -EBUSY;
}

// Sleeps until all lines are printed. (Neither syscall(2) nor sched_yield(2) is a cancellation
// point.)
static void wait_for_writer(uint64_t until_ns) {
    for (;;) {
        const uint32_t said = atomic_load(&ct_oom_notice_said);
        const uint64_t now = ct_clock_read();
        if (!ct_oom_notice_is_waiting())
            return;
        if (now >= until_ns)
            break;
        const struct timespec left = {0, (long)(until_ns - now)};
        (void)syscall(SYS_futex, &ct_oom_notice_said, FUTEX_WAIT_PRIVATE, said, &left, NULL, 0);
    }
    atomic_store(&slow_until_ns, ct_clock_read() + SLOW_NS);
}

static void print_here(uint64_t start_ns) {
    struct ct_signal_guard guard;
    for (unsigned tries = 0; ct_oom_notice_is_waiting() && may_try(start_ns, tries, SAY_NS);
         tries++) {
        if (!ct_drain_lock_try(&guard)) {
            ct_drain_look();
            ct_oom_notice_print(0);
            ct_drain_lock_release(&guard);
            return;
        }
        sched_yield();
    }
}

// Says what write/oom_notice.h has to say of a failed call, after its event was published, while
// the writer thread runs: wakes that thread, and returns when the line is printed, when none is to
// be printed, or after 150 ms at most (and one write to stderr); on a busy machine, where all other
// threads run between two tries to get the drain lock, after a second. A failure that is summed up
// with others does not wait. No lock is waited for without that bound; errno is kept.
static void say_failure(const struct ct_event *e) {
    const int saved = errno;
    const uint64_t start_ns = ct_clock_read();
    const int waits =
        ct_event_reports_oom(e) && ct_oom_notice_has_turn(e->t_ns) && !drain_own(start_ns);
    ct_wakeup_ask(CT_WAKE_NOW);
    if (waits && CT_OPTION_NUMBER(NVML) && ct_nvml_is_usable() &&
        start_ns >= atomic_load(&slow_until_ns))
        wait_for_writer(start_ns + NVML_NS);
    if (waits)
        print_here(start_ns);
    errno = saved;
}

// ---- publishing -----------------------------------------------------------------------------

// Drains in this thread, unless another one is draining. Where the writer thread does not run (any
// more), this is also where failures are said.
static __attribute__((noinline)) int drain_here(enum ct_drain_how how) {
    struct ct_signal_guard guard;
    if (ct_drain_lock_try(&guard))
        return -EBUSY;
    ct_drain_run(how);
    if (how == CT_DRAIN_FINAL || !ct_writer_thread_runs())
        ct_oom_notice_print(how == CT_DRAIN_FINAL);
    ct_drain_lock_release(&guard);
    return 0;
}

// The thread's ring is half written. If a signal handler has left that by siglongjmp, the ring is
// freed; else this is a handler that has interrupted it, whose event is lost.
static int publish_again(struct ct_event *event) {
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (ct_enclosing_is_lost(ct_enclosing_find(here, ct_ring_publishing(), NULL)))
        return -EBUSY;
    ct_ring_give_up();
    return ct_ring_publish(event);
}

// Ring full: drain it here, or yield to the thread that is draining. The wait also covers a thread
// that lost its core while it published: nothing newer than its event can be taken out before it
// goes on. Events that come faster than they can be written are held back, not lost, within the
// bounds above. While nothing at all can be taken out, later events do not wait again.
static __attribute__((noinline)) void publish_slow(struct ct_event *event, int rc) {
    static _Atomic int waiting_was_useless;
    const uint64_t start_ns = ct_clock_read();
    if (rc == -EBUSY)
        rc = publish_again(event);
    for (unsigned tries = 0; rc == -ENOSPC && may_try(start_ns, tries, FULL_NS); tries++) {
        const int busy = drain_here(CT_DRAIN_EVENTS);
        rc = ct_ring_publish(event);
        if (rc == -ENOSPC && !busy && (ct_drain_is_stuck() || atomic_load(&waiting_was_useless)))
            break;
        if (rc == -ENOSPC) {
            sched_yield();
            rc = ct_ring_publish(event); // the other thread may have made room
        }
    }
    atomic_store(&waiting_was_useless, rc == -ENOSPC);
    if (rc < 0)
        ct_ring_count_lost(1);
}

// The journal is about to be removed, or is. What a thread has published is in the file before its
// call returns, however soon the kernel ends the thread then. Other threads may have to finish
// publishing first.
static void drain_at_exit(int (*is_done)(void)) {
    const uint64_t until = ct_clock_read() + UNTIL_NS;
    while ((drain_here(CT_DRAIN_FINAL) || !is_done()) && ct_clock_read() < until)
        sched_yield();
}

// Of a ring that lies apart nothing survives a kill: what is in it goes into the open chunk, which
// is in the journal, before the call returns. Does not wait where waiting was of no use before.
static __attribute__((noinline)) void drain_apart(void) {
    static _Atomic int was_useless;
    const uint64_t until = ct_clock_read() + (atomic_load(&was_useless) ? 0 : UNTIL_NS);
    int may_help = 1;
    while (!ct_ring_is_empty() && may_help) {
        const int busy = drain_here(CT_DRAIN_EVENTS);
        may_help = (busy || !ct_drain_is_stuck()) && ct_clock_read() < until;
        sched_yield();
    }
    atomic_store(&was_useless, !ct_ring_is_empty());
}

// A failed allocation is in the journal like every event and survives what follows; the writer
// thread is woken to put it into the trace. Without that thread, and at the exit, this thread does
// it.
static __attribute__((noinline)) void flush_after_publish(const struct ct_event *event) {
    if (ct_tracing_is_exiting())
        drain_at_exit(ct_ring_is_empty);
    else if (ct_writer_thread_runs())
        say_failure(event);
    else
        (void)drain_here(CT_DRAIN_FLUSH);
}

static __attribute__((noinline)) void drain_quarter(void) {
    if (ct_ring_is_apart())
        drain_apart();
    else if (ct_writer_thread_runs())
        ct_wakeup_ask(CT_WAKE_NOW);
    else
        (void)drain_here(CT_DRAIN_EVENTS);
}

static inline __attribute__((always_inline)) void publish(struct ct_event *event) {
    const int rc = ct_ring_publish(event);
    if (__builtin_expect(rc < 0, 0))
        publish_slow(event, rc);
    if (__builtin_expect(ct_event_is_failed_allocation(event) || ct_tracing_is_exiting(), 0))
        flush_after_publish(event);
    if (__builtin_expect(atomic_load(&ct_wakeup_is_needed), 0))
        ct_wakeup_notice();
    if (__builtin_expect(rc > 0, 0)) // another quarter of the ring is full
        drain_quarter();
}

// The event may be the thread's first one, inside ranges that began before.
static __attribute__((noinline)) void publish_open_ranges(void) {
    struct ct_event range;
    while (ct_annotation_take_pending(&range))
        publish(&range);
}

void ct_publish(struct ct_event *event) {
    if (__builtin_expect(!ct_tracing_is_open(), 0))
        ct_tracing_open();
    if (__builtin_expect(ct_annotation_pending != 0, 0))
        publish_open_ranges();
    publish(event);
}

void ct_publish_amend(struct ct_event *correction) {
    CT_SET(correction, op, CT_OP_AMEND);
    correction->present &= ~CT_BIT(t_ns);
    ct_publish(correction);
}

int ct_publish_flush(void) {
    return ct_tracing_is_open() ? drain_here(CT_DRAIN_FLUSH) : 0;
}

// ---- exit -----------------------------------------------------------------------------------

static __attribute__((destructor)) void finish_at_exit(void) {
    if (!ct_tracing_is_open())
        return;
    const int saved = errno;
    // The writer thread ends with the versions of the packages that this finds.
    (void)drain_here(CT_DRAIN_EVENTS);
    (void)ct_writer_thread_name_pending(2000);
    ct_survey_ask_last();
    ct_wakeup_ask(CT_WAKE_STOP);
    ct_writer_thread_finish_notes();
    (void)drain_here(CT_DRAIN_EVENTS);
    ct_writer_thread_finish_reading();
    (void)ct_writer_thread_name_pending(2000);
    // What is published after this drain has looked is put into the file by the thread that
    // publishes it.
    ct_tracing_begin_exit();
    drain_at_exit(ct_rings_are_empty);
    errno = saved;
}
