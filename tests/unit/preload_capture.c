// SPDX-License-Identifier: Apache-2.0
// Capturing stacks: from memory, by rules and by libunwind with the same result; threads, signals,
// forks, and invalidated caches.
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../lib/unit.h"
#include "../stacks/capture/walk_fault.h"
#include "base/loader_gate.h"
#include "record/tracing.h"
#include "stack/capture.h"
#include "stack/enclosing.h"
#include "stack/walk.h"
#include "store/stack_table.h"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

static NOINLINE uint32_t other_way_down(unsigned n, unsigned way);
static NOINLINE uint32_t down(unsigned n, unsigned way) {
    const uint32_t id = !n        ? ct_capture_stack()
                        : way & 1 ? other_way_down(n - 1, way >> 1)
                                  : down(n - 1, way >> 1);
    __asm__ volatile("" : : : "memory");
    return id;
}
static NOINLINE uint32_t other_way_down(unsigned n, unsigned way) {
    const uint32_t id = !n        ? ct_capture_stack()
                        : way & 1 ? down(n - 1, way >> 1)
                                  : other_way_down(n - 1, way >> 1);
    __asm__ volatile("nop" : : : "memory");
    return id;
}

static struct ct_capture_counts since(struct ct_capture_counts before) {
    const struct ct_capture_counts now = ct_capture_counts();
    return (struct ct_capture_counts){now.recalled - before.recalled, now.walked - before.walked,
                                      now.unwound - before.unwound, now.checks - before.checks,
                                      now.mismatches - before.mismatches};
}

static char folder[] = "/tmp/capture.XXXXXX";

BEFORE_ALL {
    char text[64];
    if (!mkdtemp(folder))
        return 1;
    snprintf(text, sizeof text, "%s/%%p.zst", folder);
    setenv("CUTRACE_OUTPUT", text, 1);
    setenv("CUTRACE_STACK_DEPTH", "64", 1);
    setenv("CUTRACE_CHECK_STACKS", "1", 1);
    return !ct_tracing_is_on(); // reads the options
}

AFTER_ALL {
    char text[64];
    snprintf(text, sizeof text, "rm -rf %s", folder);
    return system(text);
}

static uint64_t planted; // faults that were found because they were planted

// Every capture of this program is compared.
AFTER_EACH {
    assert_int_equal(ct_capture_counts().mismatches, planted);
    return 0;
}

TEST(the_second_time_is_from_memory) {
    uint32_t ids[6];
    const struct ct_capture_counts before = ct_capture_counts();
    for (volatile int i = 0; i < 6; i++)
        ids[i] = down(20, 0x2f31);
    const struct ct_capture_counts n = since(before);
    for (int i = 1; i < 6; i++)
        assert_int_equal(ids[i], ids[0]);
    assert_true(ct_stack_table_get(ids[0])->frames > 20);
    assert_int_equal(n.checks, 6);
#ifdef __x86_64__                  // elsewhere it is libunwind alone
    assert_int_equal(n.walked, 2); // it was remembered when it was seen again
    assert_int_equal(n.recalled, 4);
#endif
}

TEST(other_ways_are_other_stacks) {
    uint32_t ids[256];
    for (volatile unsigned round = 0; round < 4; round++)
        for (volatile unsigned i = 0; i < 256; i++) {
            const uint32_t id = down(8, i);
            if (round)
                assert_int_equal(id, ids[i]);
            ids[i] = id;
        }
    for (unsigned i = 0; i < 256; i++)
        for (unsigned k = 0; k < i; k++)
            assert_int_not_equal(ids[i], ids[k]);
}

TEST(more_than_a_thread_remembers) {
    for (volatile unsigned round = 0; round < 3; round++)
        for (volatile unsigned i = 0; i < 6000; i++)
            assert_int_not_equal(down(30 + i % 40, i * 2654435761u), 0);
}

TEST(is_cut_at_the_depth) {
    for (volatile int i = 0; i < 4; i++) {
        const struct ct_stack_entry *e = ct_stack_table_get(down(3000, 0));
        assert_int_equal(e->frames, 64 + 1);
        assert_int_equal(e->frame[64], ct_frame_word_end(CT_STACK_DEEPER));
    }
}

TEST(what_was_unloaded_is_forgotten) {
    const uint32_t id = down(5, 3);
    ct_capture_forget_code();
    const struct ct_capture_counts before = ct_capture_counts();
    for (volatile int i = 0; i < 3; i++)
        (void)down(5, 3);
    assert_int_equal(down(5, 3) != 0, id != 0);
    assert_int_equal(since(before).checks, 4);
}

// ---- threads ----------------------------------------------------------------------------------

static void *in_thread(void *argument) {
    const unsigned me = (unsigned)(uintptr_t)argument;
    uintptr_t bad = 0;
    for (unsigned i = 0; i < 2000; i++)
        bad += down(i % 30, i * me) == 0;
    return (void *)bad;
}

// Rings are handed on from wave to wave, and what their threads remembered with them.
TEST(threads_come_and_go) {
    for (int wave = 0; wave < 4; wave++) {
        pthread_t threads[6];
        for (uintptr_t i = 0; i < 6; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, in_thread, (void *)(i + 1)), 0);
        for (int i = 0; i < 6; i++) {
            void *bad;
            pthread_join(threads[i], &bad);
            assert_ptr_equal(bad, NULL);
        }
    }
}

// ---- signals ----------------------------------------------------------------------------------

#define SIGNALS 400
static _Atomic unsigned handled, inside;
static timer_t timer;
// One at a time: where a capture takes longer than that (under an emulator), a timer that goes on
// by itself would leave no time for anything else.
static const struct itimerspec in_a_millisecond = {{0, 0}, {0, 1000000}};

static void handler(int signal) {
    (void)signal;
    const int saved = errno;
    if (!down(3, 1))
        atomic_fetch_add(&inside, 1);
    if (atomic_fetch_add(&handled, 1) + 1 < SIGNALS)
        timer_settime(timer, 0, &in_a_millisecond, NULL);
    errno = saved;
}

// A handler that interrupts a capture gets none of its own; all else goes on.
TEST(signals_anywhere) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK}, before;
    static char room[64 << 10];
    const stack_t other = {.ss_sp = room, .ss_size = sizeof room};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    sigaltstack(&other, NULL);
    sigaction(SIGUSR1, &action, &before);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer))
        skip();
    timer_settime(timer, 0, &in_a_millisecond, NULL);
    for (volatile unsigned i = 0; i < 3000000 && atomic_load(&handled) < SIGNALS; i++)
        assert_int_not_equal(down(i % 40, i), 0);
    timer_delete(timer);
    sigaction(SIGUSR1, &before, NULL);
    print_message("# %u signals, %u inside a capture\n", atomic_load(&handled),
                  atomic_load(&inside));
    assert_true(atomic_load(&handled) > 100);
}

// ---- fibers -----------------------------------------------------------------------------------

static ucontext_t here, there;
static uint32_t in_fiber;
static void fiber(void) {
    in_fiber = down(10, 77);
}

// A fiber's stack lies where a longer one was: nothing of what was there may be read.
TEST(stacks_that_come_and_go) {
    const size_t most = 256 << 10;
    char *place = mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(place, MAP_FAILED);
    for (volatile unsigned i = 0; i < 200; i++) {
        const size_t bytes = (i % 2 ? 32u : 64u) << 10;
        assert_ptr_equal(mmap(place, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         place);
        getcontext(&there);
        there.uc_stack.ss_sp = place;
        there.uc_stack.ss_size = bytes;
        there.uc_link = &here;
        makecontext(&there, fiber, 0);
        swapcontext(&here, &there);
        assert_int_not_equal(in_fiber, 0);
        assert_true(mmap(place, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                    place);
    }
    munmap(place, most);
}

// ---- fork -------------------------------------------------------------------------------------

#if !defined(__SANITIZE_THREAD__) && defined(__x86_64__)
// (Neither the thread sanitizer nor the emulator of other machines knows threads of a forked
// child.)
static int child_is_fine(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void in_child(void) {
    uint32_t ids[4];
    for (volatile int i = 0; i < 4; i++) {
        ids[i] = down(12, 5);
        const struct ct_stack_entry *e = ct_stack_table_get(ids[i]);
        if (!e || e->frames < 12 || (i && ids[i] != ids[0]))
            _exit(1);
    }
    _exit(ct_capture_counts().mismatches != 0);
}

TEST(children_capture_for_themselves) {
    (void)down(12, 5);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (!child)
            in_child();
        assert_true(child_is_fine(child));
        child =
            (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); // without the handlers of the C library
        if (!child)
            in_child();
        assert_true(child_is_fine(child));
    }
    assert_int_not_equal(down(12, 5), 0);
}

static _Atomic int stop;
static void *until_stopped(void *unused) {
    (void)unused;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        (void)down(i % 40, i % 512); // (other ones for ever would fill the table)
        if (i % 500 == 0)
            ct_capture_forget_code(); // so that libunwind is asked again and again
    }
    return NULL;
}

TEST(forks_under_load) {
    pthread_t threads[3];
    atomic_store(&stop, 0);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, until_stopped, NULL);
    for (int i = 0; i < 100; i++) {
        const pid_t child = fork();
        if (!child)
            _exit(0 * (int)down(9, 1));
        assert_true(child_is_fine(child));
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

// A thread that asks the loader has its lock, which a child gets locked for ever: it must do
// without the unwinder.
static _Atomic int in_loader;
static int stay(struct dl_phdr_info *object, size_t bytes, void *unused) {
    (void)object;
    (void)bytes;
    (void)unused;
    atomic_store(&in_loader, 1);
    while (!atomic_load(&stop))
        usleep(1000);
    return 1;
}

static void *ask_the_loader(void *unused) {
    (void)unused;
    if (!ct_loader_gate_enter()) {
        (void)dl_iterate_phdr(stay, NULL);
        ct_loader_gate_leave();
    }
    return NULL;
}

TEST(a_fork_while_the_loader_is_asked) {
    pthread_t thread;
    int status = 0;
    atomic_store(&stop, 0);
    pthread_create(&thread, NULL, ask_the_loader, NULL);
    while (!atomic_load(&in_loader))
        usleep(1000);
    for (int by_clone = 0; by_clone < 2; by_clone++) {
        const pid_t child = by_clone ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        if (!child) {
            alarm(60);
            ct_capture_forget_code(); // so that nothing is known any more
            (void)down(7, 3);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    assert_int_not_equal(down(7, 3), 0);
}
#endif

// ---- off --------------------------------------------------------------------------------------

TEST(a_planted_fault_is_found) {
    uint32_t wrong = 0;
    assert_int_not_equal(down(17, 0x1234), 0);
    atomic_store(&walk_fault, FAULT_RETURN_ADDRESS);
    // Where the writer has just heard of an unloaded object, the next stack is unwound in full.
    for (volatile int i = 0; i < 50 && !ct_capture_counts().mismatches; i++)
        wrong = down(17, 0x1234);
    atomic_store(&walk_fault, 0);
    planted = ct_capture_counts().mismatches;
    assert_int_not_equal(wrong, 0);
#ifdef __x86_64__
    assert_int_equal(planted, 1);
    const struct ct_capture_counts before = ct_capture_counts();
    for (volatile int i = 0; i < 5; i++)
        assert_int_not_equal(down(17, 0x1234), 0);
    assert_int_equal(since(before).unwound, 5);
#endif
}

TEST(off_is_off) {
    const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    ct_capture_disable();
    assert_int_equal(down(3, 0), 0);
    // Nobody waits for an unwinder that does not come back: that would be 0.1 s each.
    alarm(60);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(ct_enclosing_find(frame, CT_ENCLOSING_ANY, NULL), CT_ENCLOSING_UNKNOWN);
    alarm(0);
}
