// SPDX-License-Identifier: Apache-2.0
// Allocates from frames of every kind: alloca and aligned stacks, recursion, longjmp, signal
// handlers on the thread's and on another stack, fibers whose stacks come and go, libraries that
// come and go, threads. The same source is built with and without optimisation and frame pointers.
//
// Usage: frames ROUNDS [PLUGIN...]
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define KEEP __asm__ volatile("" : : : "memory") // no tail call

static __thread uint64_t random_state;
static unsigned dice(unsigned n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

static NOINLINE void leaf(void) {
    void *volatile p = malloc(16);
    free(p);
}

// ---- recursion through different call sites --------------------------------------------------

static NOINLINE void left(int n, unsigned way);
static NOINLINE void right(int n, unsigned way);
static NOINLINE void left(int n, unsigned way) {
    if (n == 0)
        leaf();
    else if (way & 1)
        right(n - 1, way >> 1);
    else
        left(n - 1, way >> 1);
    KEEP;
}
static NOINLINE void right(int n, unsigned way) {
    char room[40];
    memset(room, n, sizeof room);
    if (n == 0)
        leaf();
    else if (way & 1)
        left(n - 1, way >> 1);
    else
        right(n - 1, way >> 1);
    __asm__ volatile("" : : "r"(room) : "memory");
}

// ---- the same stack pointer, other frames ----------------------------------------------------
// All ways through here have leaf at the same place, and what one has left behind where the other
// has its return address is a return address of the one. Only the frame pointers tell them apart.

static NOINLINE void inner(unsigned room) {
    volatile char *p = alloca(room);
    p[0] = 1;
    leaf();
    KEEP;
}
// Two functions of the same size.
#define OUTER(name)                                           \
    static NOINLINE void name(unsigned room, unsigned rest) { \
        volatile char *p = alloca(room);                      \
        p[0] = 1;                                             \
        inner(rest);                                          \
        __asm__ volatile("nop # " #name : : : "memory");      \
    }
OUTER(outer)
OUTER(other)

static NOINLINE void same_place(void) {
    for (unsigned i = 0; i < 40; i++) {
        // One call for both: where it returns to must not tell them apart.
        void (*const volatile which[])(unsigned, unsigned) = {outer, other};
        const unsigned one = dice(2), room = one ? 64 : 128;
        which[one](room, 512 - room);
        KEEP;
    }
}

// ---- other frames ----------------------------------------------------------------------------

static NOINLINE void aligned(int n, unsigned room) {
    char block[128] __attribute__((aligned(64)));
    volatile char *p = alloca(room);
    p[0] = 1;
    memset(block, n, sizeof block);
    if (n)
        aligned(n - 1, room / 2 + 16);
    else
        leaf();
    __asm__ volatile("" : : "r"(block) : "memory");
}

static NOINLINE void aligned_only(int n) {
    char block[64] __attribute__((aligned(32)));
    memset(block, n, sizeof block);
    __asm__ volatile("" : : "r"(block) : "memory");
    if (n)
        aligned_only(n - 1);
    else
        leaf();
    __asm__ volatile("" : : "r"(block) : "memory");
}

static NOINLINE void variable_array(unsigned n) {
    char block[n];
    memset(block, 1, n);
    __asm__ volatile("" : : "r"(block) : "memory");
    leaf();
    KEEP;
}

static NOINLINE void big_frame(void) {
    char block[20000];
    memset(block, 1, 10);
    __asm__ volatile("" : : "r"(block) : "memory");
    leaf();
    KEEP;
}

static int compare(const void *a, const void *b) {
    leaf();
    return *(const int *)a - *(const int *)b;
}
static NOINLINE void sorted(void) {
    int v[12];
    for (int i = 0; i < 12; i++)
        v[i] = (int)dice(100);
    qsort(v, 12, sizeof *v, compare);
}

static __thread jmp_buf back;
static volatile int always = 1;
static NOINLINE void jumps(int n) {
    if (n == 0) {
        leaf();
        if (always)
            longjmp(back, 1);
        return;
    }
    jumps(n - 1);
    KEEP;
}
static NOINLINE void jumped(void) {
    if (!setjmp(back))
        jumps((int)dice(20));
    leaf();
    KEEP;
}

// ---- signals ---------------------------------------------------------------------------------

static void handler(int signal) {
    (void)signal;
    left((int)dice(6), dice(64));
}
static NOINLINE void signals(void) {
    raise(dice(2) ? SIGUSR1 : SIGUSR2);
    leaf();
}
static void watch_signals(void) {
    struct sigaction on_other = {.sa_handler = handler, .sa_flags = SA_ONSTACK},
                     here = {.sa_handler = handler};
    sigaction(SIGUSR1, &on_other, NULL);
    sigaction(SIGUSR2, &here, NULL);
}
static void other_stack(void) {
    stack_t s = {.ss_size = 64 << 10};
    s.ss_sp = mmap(NULL, s.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&s, NULL);
}

// ---- fibers ----------------------------------------------------------------------------------

static __thread ucontext_t here, there;
static void fiber(void) {
    left((int)dice(20), dice(1024));
    leaf();
}
static NOINLINE void fibers(void) {
    const size_t bytes = (16u + 16 * dice(2))
                         << 10; // where a longer one was before there may be nothing
    getcontext(&there);
    there.uc_stack.ss_size = bytes;
    there.uc_stack.ss_sp =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    there.uc_link = &here;
    makecontext(&there, fiber, 0);
    swapcontext(&here, &there);
    munmap(there.uc_stack.ss_sp, bytes);
}

// ---- libraries -------------------------------------------------------------------------------

static char **plugins;
static int n_plugins;
static pthread_mutex_t plugin_lock = PTHREAD_MUTEX_INITIALIZER;
static NOINLINE void plugin(void) {
    if (!n_plugins)
        return;
    pthread_mutex_lock(&plugin_lock);
    void *library = dlopen(plugins[dice((unsigned)n_plugins)], RTLD_NOW);
    void (*call)(void (*)(void), int) = NULL;
    void *found = library ? dlsym(library, "plugin_call") : NULL;
    memcpy(&call, &found, sizeof call);
    if (!call)
        abort();
    for (int i = 0; i < 4; i++)
        call(leaf, i);
    dlclose(library);
    pthread_mutex_unlock(&plugin_lock);
}

// ----------------------------------------------------------------------------------------------

static void round_of_all(unsigned i) {
    left((int)dice(30), dice(1u << 20));
    same_place();
    aligned((int)dice(4), 32 + dice(200));
    aligned_only((int)dice(6));
    variable_array(1 + dice(300));
    big_frame();
    sorted();
    jumped();
    signals();
    fibers();
    if (i % 8 == 0)
        plugin();
    if (i % 64 == 0)
        left(1000, dice(1u << 30));
}

static long rounds;
static void *thread(void *argument) {
    random_state = (uintptr_t)argument * 977;
    other_stack();
    for (long i = 0; i < rounds; i++)
        round_of_all((unsigned)i);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[6];
    rounds = argc > 1 ? atol(argv[1]) : 100;
    plugins = argv + 2;
    n_plugins = argc > 2 ? argc - 2 : 0;
    watch_signals();
    for (uintptr_t wave = 0; wave < 2; wave++) {
        for (uintptr_t i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, thread, (void *)(1 + i + 10 * wave));
        (void)thread((void *)(100 + wave));
        for (int i = 0; i < 3; i++)
            pthread_join(threads[i], NULL);
    }
    puts("done");
    return 0;
}
