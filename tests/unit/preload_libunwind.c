// SPDX-License-Identifier: Apache-2.0
// libunwind as it is built here (scripts/libunwind-*.patch): a thread that loses its core just
// after it has left the lock of the cache takes no ordinary frame for a signal frame.
#include "../lib/unit.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <libunwind.h>
#include <pthread.h>

#define NOINLINE __attribute__((noinline))
#define DEPTH 20
// Only there does libunwind remember that a frame is a signal's.
#ifdef __x86_64__
#define REMEMBERS_SIGNAL_FRAMES 1
#else
#define REMEMBERS_SIGNAL_FRAMES 0
#endif

static uintptr_t signal_return; // where the kernel lets signal handlers return to

// In the order of sigaction(2), which is not the C library's.
struct kernel_sigaction {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
};

static void handle(int number) {
    (void)number;
}

static void find_signal_return(void) {
    struct kernel_sigaction known = {.handler = NULL};
    (void)signal(SIGUSR1, handle);
    (void)syscall(SYS_rt_sigaction, SIGUSR1, NULL, &known, sizeof known.mask);
    signal_return = (uintptr_t)known.restorer;
}

// What another thread may do: it forgets unloaded code, walks through a signal frame, which comes
// into the first entry of the cache then, and forgets once more.
static void use_cache(void) {
    unw_context_t context;
    unw_cursor_t cursor;
    unw_flush_cache(unw_local_addr_space, 0, 0);
    unw_getcontext(&context);
    if (!unw_init_local(&cursor, &context) && !unw_set_reg(&cursor, UNW_REG_IP, signal_return))
        (void)unw_step(&cursor);
    unw_flush_cache(unw_local_addr_space, 0, 0);
}

static int is_watching, locked, times;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    locked += is_watching;
    return __real_pthread_mutex_lock(mutex);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    const int rc = __real_pthread_mutex_unlock(mutex);
    if (is_watching && --locked == 0) {
        is_watching = 0;
        use_cache();
        times++;
        is_watching = 1;
    }
    return rc;
}

static uintptr_t expected[DEPTH + 1];
static void *found[DEPTH + 1];

static NOINLINE int walk(void) {
    expected[DEPTH] = (uintptr_t)__builtin_return_address(0);
    is_watching = 1;
    const int n = unw_backtrace(found, DEPTH + 1);
    is_watching = 0;
    return n;
}

static NOINLINE int down(unsigned n) { // NOLINT(misc-no-recursion)
    expected[n] = (uintptr_t)__builtin_return_address(0);
    const int depth = n + 1 < DEPTH ? down(n + 1) : walk();
    __asm__ volatile("" : : : "memory");
    return depth;
}

TEST(a_signal_frame_of_another_thread) {
    if (!REMEMBERS_SIGNAL_FRAMES)
        skip();
    find_signal_return();
    assert_true(signal_return);
    assert_int_equal(down(0), DEPTH + 1);
    for (unsigned i = 1; i <= DEPTH; i++) // the innermost is in walk
        assert_int_equal((uintptr_t)found[i], expected[DEPTH + 1 - i]);
    assert_true(times >= 3); // for each new address
}
