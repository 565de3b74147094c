// SPDX-License-Identifier: Apache-2.0
// The writer thread: wakes a moment after something happened, and sleeps without a timer when
// nothing does.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "devices.h"
#include "dictionary.h"
#include "options.h"
#include "ring.h"
#include "writer.h"

#define SAMPLE_NS UINT64_C(1000000000)
#define RETRY_NS UINT64_C(1000000000)
#define STACK_BYTES (512u << 10)
#define ALONE_NS UINT64_C(100000000)
#define FOREVER UINT64_MAX

enum { NOTICE = 1, HURRY = 2, STOP = 4 };

static _Atomic uint32_t wanted; // the futex: what the thread is asked for
_Atomic int ct_writer_sleeps;

static void ask(uint32_t what) {
    const int saved = errno;
    if (!(atomic_fetch_or(&wanted, what) & what))
        (void)syscall(SYS_futex, &wanted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}

void ct_writer_notice(void) {
    if (atomic_exchange(&ct_writer_sleeps, 0))
        ask(NOTICE);
}

void ct_writer_hurry(void) {
    ask(HURRY);
}

void ct_writer_stop(void) {
    ask(STOP);
}

// Waits until asked for something beyond `ignored`, or for ns. Returns what is asked for.
static uint32_t wait_for(uint32_t ignored, uint64_t ns) {
    const uint64_t end = ns == FOREVER ? FOREVER : ct_clock() + ns;
    for (;;) {
        const uint32_t now = atomic_load(&wanted);
        const uint64_t t = ct_clock();
        if (now & ~ignored || t >= end)
            return now;
        const struct timespec left = {(time_t)((end - t) / 1000000000u),
                                      (long)((end - t) % 1000000000u)};
        (void)syscall(SYS_futex, &wanted, FUTEX_WAIT_PRIVATE, now, end == FOREVER ? NULL : &left,
                      NULL, 0);
    }
}

static int something_is_published(void) {
    for (struct ct_ring *r = ct_rings(); r; r = r->next)
        if (atomic_load(&r->announced) != CT_QUIET ||
            atomic_load(&r->head) != atomic_load(&r->tail))
            return 1;
    return 0;
}

static void work(void) {
    struct ct_shield shield;
    if (ct_drain_wait(&shield, 1000))
        return;
    ct_drain(CT_DRAIN_EVENTS);
    const size_t unresolved = ct_dictionary_unresolved();
    ct_drain_leave(&shield);
    if (unresolved)
        (void)ct_resolve_symbols(0);
}

// ---- a process without its main thread --------------------------------------------------------
// main may leave by pthread_exit; glibc then ends the process with its last thread, which must not be ours.

static pthread_key_t main_key;
static _Atomic int main_left;

static void main_leaves(void *unused) {
    (void)unused;
    atomic_store(&main_left, 1);
    ask(NOTICE);
}

// By the constructor the main thread of the process, by a fork that of the child.
static void watch_this_thread(void) {
    atomic_store(&main_left, 0);
    (void)pthread_setspecific(main_key, &main_key);
}

__attribute__((constructor)) static void make_main_key(void) {
    if (!pthread_key_create(&main_key, main_leaves))
        watch_this_thread();
}

void ct_writer_forked(void) {
    atomic_store(&wanted, 0);
    atomic_store(&ct_writer_sleeps, 0);
    watch_this_thread();
}

// Whether only the main thread, which has left or is about to, and this one remain: /proc counts a folder
// for each thread.
static int is_last(void) {
    struct stat tasks;
    return atomic_load(&main_left) && !stat("/proc/self/task", &tasks) && tasks.st_nlink <= 2 + 2;
}

// ---- the thread -------------------------------------------------------------------------------

static void *writer(void *unused) {
    uint64_t sample_ns = ct_clock();
    int nvml = CT_NUMBER(NVML) != 0;
    (void)unused;
    (void)prctl(PR_SET_NAME, "cutrace", 0, 0, 0);
    for (uint32_t asked = HURRY; !(asked & STOP) && !is_last();) {
        work();
        if (nvml && ct_devices_any() && ct_clock() >= sample_ns) {
            nvml = ct_devices_sample() == 0;
            sample_ns = ct_clock() + SAMPLE_NS;
        }
        // From here on a producer that publishes says so, or is seen by the second look.
        atomic_store(&ct_writer_sleeps, 1);
        if (something_is_published())
            atomic_store(&ct_writer_sleeps, 0);
        uint64_t idle_ns = nvml && ct_devices_any() ? SAMPLE_NS : FOREVER;
        if (ct_drain_is_stuck())
            idle_ns = RETRY_NS;
        if (atomic_load(&main_left))
            idle_ns = ALONE_NS;
        if (atomic_load(&ct_writer_sleeps))
            asked = wait_for(0, idle_ns);
        else
            asked = NOTICE;
        // A little later there is more of it.
        if (asked == NOTICE)
            asked = wait_for(NOTICE, CT_NUMBER(FLUSH_MS));
        atomic_store(&ct_writer_sleeps, 0);
        atomic_fetch_and(&wanted, STOP);
    }
    return NULL;
}

int ct_writer_start(void) {
    struct ct_shield shield;
    pthread_attr_t attributes;
    pthread_t thread;
    ct_shield_up(&shield); // the thread inherits the blocked signals
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int rc = pthread_create(&thread, &attributes, writer, NULL);
    if (rc == EINVAL) { // a program with much thread-local storage
        pthread_attr_destroy(&attributes);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        rc = pthread_create(&thread, &attributes, writer, NULL);
    }
    pthread_attr_destroy(&attributes);
    ct_shield_down(&shield);
    return -rc;
}
