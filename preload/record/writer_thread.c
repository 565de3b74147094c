// SPDX-License-Identifier: Apache-2.0
// The writer thread: wakes a moment after something happened, and sleeps without a timer when
// nothing does.
#define _GNU_SOURCE
#include "record/writer_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base_libc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/options.h"
#include "base/wait.h"
#include "record/rescan.h"
#include "record/survey.h"
#include "record/wakeup.h"
#include "stack/python_find.h"
#include "store/journal.h"
#include "store/name_table.h"
#include "store/ring.h"
#include "write/dictionary.h"
#include "write/drain.h"
#include "write/drain_lock.h"
#include "write/host_memory.h"
#include "write/info_table.h"
#include "write/live_state.h"
#include "write/nvml.h"
#include "write/oom_notice.h"
#include "write/package_versions.h"
#include "write/process_info.h"
#include "write/symbolizer.h"

#define SAMPLE_NS UINT64_C(1000000000)
#define HASTE_NS UINT64_C(50000000) // between two NVML samples that a reading asked for
#define NAP_NS UINT64_C(250000000)
#define RETRY_NS UINT64_C(1000000000)
#define STACK_BYTES (512u << 10)
#define EXIT_NS 1000000000u
#define PAUSE_NS 100000u
#define ALONE_NS UINT64_C(100000000)
#define FOREVER UINT64_MAX

// The thread's own ring cannot be full: only this thread fills and empties it.
static void record(struct ct_event *event) {
    if (ct_ring_publish(event) < 0)
        ct_ring_count_lost(1);
}

static void record_note(uint32_t text) {
    struct ct_event e = {.present = 0};
    CT_SET(&e, op, CT_OP_NOTE);
    CT_SET(&e, text, text);
    record(&e);
}

static _Atomic int noting; // threads that have taken a note and may not have published it

static void record_notes(void) {
    atomic_fetch_add(&noting, 1);
    const uint32_t note = ct_python_take_note();
    if (note)
        record_note(note);
    atomic_fetch_sub(&noting, 1);
}

void ct_writer_thread_finish_notes(void) {
    record_notes();
    (void)ct_wait_while(&noting, 1);
}

static int something_is_published(void) {
    if (ct_rings_fence())
        return 1;
    for (struct ct_ring *r = ct_rings(); r; r = r->next)
        if (atomic_load(&r->shared->announced) != CT_JOURNAL_IDLE ||
            atomic_load(&r->shared->head) != atomic_load(&r->shared->tail))
            return 1;
    return 0;
}

// What another process asked for through the journal.
static enum ct_drain_how read_control(void) {
    static uint32_t before, times_off;
    struct ct_journal *j = ct_journal_get();
    const uint32_t control = j ? atomic_load(&j->control) : 0;
    if ((control ^ before) & CT_CONTROL_OFF)
        record_note(ct_name_intern(control & CT_CONTROL_OFF
                                       ? "recording was switched off by cutrace ctl"
                                       : "recording was switched on by cutrace ctl"));
    if (control & ~before & CT_CONTROL_OFF)
        ct_info_set("recorder.switched_off", "%u", ++times_off);
    before = control;
    return control & CT_CONTROL_FLUSH ? CT_DRAIN_FLUSH : CT_DRAIN_EVENTS;
}

static uint64_t sample_ns; // when NVML is to be asked
static int has_nvml;

// Asks NVML if it is time: soon after a failure, or after a reading that differs.
static void sample_nvml(void) {
    if (ct_nvml_has_devices())
        ct_process_info_publish_release();
    const int in_haste = ct_live_state_wants_nvml() || ct_oom_notice_has_devices();
    const uint64_t deadline = in_haste ? sample_ns - SAMPLE_NS + HASTE_NS : sample_ns;
    if (!has_nvml || !ct_nvml_has_devices() || ct_clock_read() < deadline)
        return;
    (void)ct_oom_notice_take_devices();
    has_nvml = ct_nvml_sample(record) == 0;
    ct_host_memory_sample(record);
    sample_ns = ct_clock_read() + SAMPLE_NS;
}

// Asks NVML about the devices on which a request failed, and prints the lines that wait for that
// (write/oom_notice.h). Before the drain, which may have to wait for a disk.
static void say_failures(void) {
    struct ct_signal_guard guard;
    if (has_nvml && ct_nvml_has_devices() && ct_oom_notice_is_waiting())
        has_nvml = ct_nvml_sample_devices(ct_oom_notice_take_devices(), record) == 0;
    if (ct_drain_lock_wait(&guard, 1000))
        return;
    ct_drain_look();
    ct_oom_notice_print(0);
    ct_drain_lock_release(&guard);
}

static int must_say(void) {
    const uint64_t deadline = ct_oom_notice_deadline_ns();
    return ct_oom_notice_is_waiting() || (deadline && ct_clock_read() >= deadline);
}

int ct_writer_thread_name_pending(unsigned ms) {
    struct ct_signal_guard guard;
    int modules_changed;
    const int rc = ct_symbolizer_resolve(ms, &modules_changed);
    if (rc < 0)
        return rc;
    if (rc > 0 && !ct_drain_lock_wait(&guard, 1000)) {
        ct_drain_run(CT_DRAIN_EVENTS);
        ct_drain_lock_release(&guard);
    }
    return modules_changed;
}

static void drain_and_name(void) {
    struct ct_signal_guard guard;
    const enum ct_drain_how how = read_control();
    record_notes();
    if (ct_drain_lock_wait(&guard, 1000))
        return;
    ct_drain_run(how);
    ct_drain_update_file();
    const int is_waiting = ct_oom_notice_is_waiting();
    const size_t unresolved = ct_dictionary_count_unresolved();
    ct_drain_lock_release(&guard);
    if (how == CT_DRAIN_FLUSH) {
        atomic_fetch_and(&ct_journal_get()->control, ~(uint32_t)CT_CONTROL_FLUSH);
        atomic_fetch_add(&ct_journal_get()->flushes, 1);
    }
    if (is_waiting)
        say_failures();
    const int loaded = unresolved && ct_writer_thread_name_pending(0) > 0;
    if (loaded || ct_rescan_is_requested())
        ct_rescan();
    ct_symbolizer_free_idle_tables();
}

// What follows reads other processes and folders, which may be on the network: it may wait for
// long, holds no lock meanwhile, and full rings are drained by the threads that fill them.
static _Atomic int runs;            // this thread, from its start to its end
static _Atomic int knows_ancestors; // their command lines were read

static void read_ancestors(void) {
    ct_command_line_read_ancestors();
    atomic_store(&knows_ancestors, 1);
}

static void read_versions(void) {
    struct ct_signal_guard guard;
    if (!ct_package_versions_has_unread())
        return;
    ct_package_versions_read();
    if (ct_drain_lock_wait(&guard, 1000))
        return;
    ct_drain_run(CT_DRAIN_EVENTS); // commits INFO, which does not wake this thread
    ct_drain_lock_release(&guard);
}

void ct_writer_thread_finish_reading(void) {
    const struct timespec pause = {0, PAUSE_NS};
    for (unsigned i = 0; i < EXIT_NS / PAUSE_NS && atomic_load(&runs); i++) {
        if (atomic_load(&knows_ancestors) && !ct_package_versions_has_unread() &&
            ct_survey_is_finished())
            return;
        nanosleep(&pause, NULL);
    }
}

// ---- a process without its main thread --------------------------------------------------------
// The main thread may end by pthread_exit. glibc then ends the process with its last thread, which
// must not be this one.

// Weak: glibc before 2.34 has them in libpthread, as it has pthread_exit.
#pragma weak pthread_key_create
#pragma weak pthread_setspecific
static pthread_key_t main_key;
static int has_main_key;
static _Atomic int main_left;

static void note_main_left(void *unused) {
    (void)unused;
    atomic_store(&main_left, 1);
    ct_wakeup_ask(CT_WAKE_NOW);
}

// Called in the main thread: by the constructor, and in a forked child.
static void watch_this_thread(void) {
    atomic_store(&main_left, 0);
    if (has_main_key)
        (void)pthread_setspecific(main_key, &main_key);
}

// A thread of another C library does not keep the program's from ending the process: no key is
// needed there (nor possible, base/base_libc.h). The main thread need not be the one that loads a
// library late.
__attribute__((constructor)) static void make_main_key(void) {
    has_main_key = pthread_key_create && pthread_setspecific && ct_base_libc_is_ours() &&
                   !pthread_key_create(&main_key, note_main_left);
    if (syscall(SYS_gettid) == getpid())
        watch_this_thread();
}

void ct_writer_thread_after_fork(void) {
    atomic_store(&noting, 0);
    atomic_store(&runs, 0);
    atomic_store(&knows_ancestors, 0);
    watch_this_thread();
}

// Whether only this thread remains, and the main thread, which has ended. Where that is not known
// (without /proc), this thread does not stay to find out.
static int is_last(void) {
    if (!atomic_load(&main_left))
        return 0;
    const unsigned threads = ct_files_count_other_threads();
    return threads ? threads <= 2 : !ct_files_are_apart();
}

// The C library would end the process now if there were no keepers of files.
static void end_as_last(void) {
    if (ct_files_are_apart())
        exit(0);
}

// ---- the thread -------------------------------------------------------------------------------

// How long the thread may sleep if it is not woken.
static uint64_t idle_ns(void) {
    uint64_t ns = has_nvml && ct_nvml_has_devices() ? SAMPLE_NS : FOREVER;
    const uint64_t deadlines[] = {ct_drain_deadline_ns(), ct_symbolizer_deadline_ns(),
                                  ct_oom_notice_deadline_ns()};
    const uint64_t now = ct_clock_read();
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++) {
        if (!deadlines[i])
            continue;
        const uint64_t left = deadlines[i] > now ? deadlines[i] - now : 0;
        if (left < ns)
            ns = left;
    }
    if (ct_drain_is_stuck())
        ns = RETRY_NS;
    return atomic_load(&main_left) && ns > ALONE_NS ? ALONE_NS : ns;
}

static void *run(void *unused) {
    (void)unused;
    sample_ns = ct_clock_read();
    has_nvml = CT_OPTION_NUMBER(NVML) != 0;
    (void)prctl(PR_SET_NAME, "cutrace", 0, 0, 0);
    if (ct_symbolizer_rescan_modules() > 0) // the stacks in the journal need them
        ct_rescan();
    read_ancestors();
    uint32_t asked = CT_WAKE_NOW;
    while (!(asked & CT_WAKE_STOP) && !is_last()) {
        ct_clock_calibrate();
        int busy = !ct_rings_are_empty();
        if (must_say())
            say_failures();
        drain_and_name();
        read_versions();
        ct_survey_look_if_due();
        sample_nvml();
        // While busy, the thread polls and needs no wakeup. When it finds nothing, it asks for one
        // first and looks again: a producer that published before the request is seen here.
        if (!busy) {
            atomic_store(&ct_wakeup_is_needed, 1);
            busy = something_is_published();
        }
        const uint64_t ns = idle_ns();
        asked = busy ? CT_WAKE_NEW_EVENTS : ct_wakeup_wait(0, ns);
        atomic_store(&ct_wakeup_is_needed, 0);
        // A notice is rarely alone: wait a moment and drain more at once.
        if (asked == CT_WAKE_NEW_EVENTS)
            asked = ct_wakeup_wait(CT_WAKE_NEW_EVENTS, ns < NAP_NS ? ns : NAP_NS);
        ct_wakeup_forget();
    }
    read_versions();
    ct_survey_look_if_due();
    atomic_store(&runs, 0);
    if (!(asked & CT_WAKE_STOP))
        end_as_last();
    return NULL;
}

int ct_writer_thread_runs(void) {
    return atomic_load(&runs);
}

int ct_writer_thread_start(void) {
    struct ct_signal_guard guard;
    if (ct_journal_get())
        ct_wakeup_use_journal(ct_journal_get());
    atomic_store(&runs, 1);
    ct_signal_guard_enter(&guard); // the thread inherits the blocked signals
    ct_base_libc_end_single_thread();
    const int rc = ct_base_libc_create_thread(run, STACK_BYTES);
    if (rc)
        atomic_store(&runs, 0);
    ct_signal_guard_leave(&guard);
    return -rc;
}
