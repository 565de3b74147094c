// SPDX-License-Identifier: Apache-2.0
// Makes some calls in two threads, and then ends in the given way: exit_kinds KIND [ARGUMENT]
#include "worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static CUcontext context;
static const char *argument;
static uintptr_t ours; // where the library lies
static _Atomic int vanished;
static unsigned pause_us = 300; // as much as a writer on a busy machine can take
static char **arguments;

static void some_calls(int n) {
    CUdeviceptr kept[16] = {0};
    for (int i = 0; i < n; i++) {
        CUdeviceptr *p = &kept[i % 16];
        if (*p)
            cu_give(*p);
        *p = *p ? 0 : cu_take(1000 + (size_t)i);
    }
    cu_give(0xdead0000u); // one that fails
}

static void *call_for_ever(void *unused) {
    cu.set_context(context);
    for (;;) {
        some_calls(20);
        if (pause_us)
            usleep(pause_us);
    }
    return unused;
}

static void *call_and_end(void *n) {
    cu.set_context(context);
    some_calls(*(int *)n);
    return NULL;
}

static pthread_t begin(void *(*work)(void *), void *data) {
    pthread_t t;
    if (pthread_create(&t, NULL, work, data))
        exit(6);
    return t;
}

static void crowd(int threads) {
    for (int i = 0; i < threads; i++)
        pthread_detach(begin(call_for_ever, NULL));
    usleep(50000);
}

// ---- ways to end ------------------------------------------------------------------------------

static void by_return(void) {
}
static void by_exit(void) {
    exit(7);
}
static void by__exit(void) {
    _exit(7);
}
static void by_exit_group(void) {
    syscall(SYS_exit_group, 7);
}
static void by_quick_exit(void) {
    quick_exit(7);
}
static void by_abort(void) {
    abort();
}
static void by_signal(void) {
    raise(atoi(argument));
}
static void by_trap(void) {
    __builtin_trap();
}

static void by_crash_in_driver(void) {
    (void)cu.alloc((CUdeviceptr *)8, 4096);
}

static void leave_by_exit(int unused) {
    (void)unused;
    exit(9);
}
static void leave_by__exit(int unused) {
    (void)unused;
    _exit(9);
}
// The driver crashes inside of a call, and a handler ends the process from in there.
static void by_exit_in_hook(void) {
    signal(SIGSEGV, leave_by_exit);
    by_crash_in_driver();
}
static void by__exit_in_hook(void) {
    signal(SIGSEGV, leave_by__exit);
    by_crash_in_driver();
}

static void callback(void *unused) {
    (void)unused;
    exit(8);
}
static void by_exit_in_callback(void) {
    CUresult (*launch)(CUstream, CUhostFn, void *);
    cu_find(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchHostFunc", &launch);
    launch(NULL, callback, NULL);
}

static void at_exit_calls(void) {
    some_calls(50);
}
static void by_calls_at_exit(void) {
    atexit(at_exit_calls);
    exit(7);
}

static void by_exit_in_crowd(void) {
    crowd(8);
    exit(7);
}
static void by__exit_in_crowd(void) {
    crowd(8);
    _exit(7);
}
static void by_abort_in_crowd(void) {
    crowd(8);
    abort();
}
static void *exit_here(void *unused) {
    exit(7);
    return unused;
}
static void by_exit_of_thread(void) {
    begin(exit_here, NULL);
    pause();
}

static void by_main_leaving(void) {
    static int n = 300;
    pthread_detach(begin(call_and_end, &n));
    pthread_exit(NULL);
}

// Of main by a bare system call: the other threads go on, and one of them ends the process.
static void *exit_later(void *unused) {
    usleep(20000);
    cu.set_context(context);
    some_calls(50);
    exit(7);
    return unused;
}
static void by_main_exit_call(void) {
    pthread_detach(begin(exit_later, NULL));
    syscall(SYS_exit, 0);
}

static void by_exec(void) {
    setenv("SIM_LEDGER_MAP", argument, 1);
    arguments[1] = strdup("exit");
    arguments[2] = NULL;
    execv("/proc/self/exe", arguments);
}
static void by_exec_in_crowd(void) {
    crowd(4);
    by_exec();
}

static void by_dlclose(void) {
    void *us = dlopen(getenv("LD_PRELOAD"), RTLD_NOW | RTLD_NOLOAD);
    for (int i = 0; us && i < 20; i++)
        dlclose(us);
    dlclose(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
    some_calls(50);
}

// Threads that are cancelled inside of the driver (SIM_LATENCY_NS makes it sleep there), again and
// again.
static void by_cancel(void) {
    for (int i = 0; i < 20; i++) {
        pthread_t t = begin(call_for_ever, NULL);
        usleep(3000 + 137 * (unsigned)i);
        pthread_cancel(t);
        pthread_join(t, NULL);
    }
    some_calls(20);
}

// Threads that are ended inside of our code without anybody's knowledge: their stacks and rings are
// as they were. Not inside of the driver, whose lock they would take along.
static void vanish(int unused, siginfo_t *info, void *registers) {
    (void)unused, (void)info;
#if defined(__x86_64__)
    const uintptr_t pc = (uintptr_t)((ucontext_t *)registers)->uc_mcontext.gregs[REG_RIP];
#else
    const uintptr_t pc = (uintptr_t)((ucontext_t *)registers)->uc_mcontext.pc;
#endif
    if (pc >= ours && pc < ours + (1u << 20)) {
        atomic_fetch_add(&vanished, 1);
        syscall(SYS_exit, 0);
    }
}

static void by_vanishing_threads(void) {
    Dl_info us = {0};
    if (!dladdr((void *)(uintptr_t)cu.alloc, &us) || !strstr(us.dli_fname, "libcutrace"))
        return;
    ours = (uintptr_t)us.dli_fbase;
    pause_us = 0;
    sigaction(SIGUSR1, &(struct sigaction){.sa_sigaction = vanish, .sa_flags = SA_SIGINFO}, NULL);
    for (int i = 0; i < 4; i++) {
        const int before = atomic_load(&vanished);
        pthread_t t = begin(call_for_ever, NULL);
        for (int k = 0; k < 1000 && atomic_load(&vanished) == before; k++) {
            usleep(200);
            pthread_kill(t, SIGUSR1);
        }
    }
    some_calls(20);
}

// Leaves a word all over the stack on which the next calls will run.
static __attribute__((noinline)) void leave_secrets(void) {
    uint64_t words[4096];
    for (size_t i = 0; i < 4096; i++)
        words[i] = UINT64_C(0x5EC2E7D95EC2E7D9);
    __asm__ volatile("" : : "r"(words) : "memory");
}
static void by_kill_with_secrets(void) {
    size_t pitch;
    for (int i = 0; i < 100; i++) {
        CUdeviceptr p = 0, q = 0;
        leave_secrets();
        const CUdeviceptr r = cu_take(1000 + (size_t)i);
        leave_secrets();
        cu_give(r);
        leave_secrets();
        (void)cu.managed(&p, 4096, 1);
        cu.returned();
        leave_secrets();
        (void)cu.pitched(&q, &pitch, 100, 100, 4);
        cu.returned();
        leave_secrets();
        cu_give(0xdead0000u);
    }
    kill(getpid(), SIGKILL);
}
static void by_kill(void) {
    kill(getpid(), SIGKILL);
}

static const struct {
    const char *name;
    void (*end)(void);
} kinds[] = {
    {"return", by_return},
    {"exit", by_exit},
    {"_exit", by__exit},
    {"exit_group", by_exit_group},
    {"quick_exit", by_quick_exit},
    {"abort", by_abort},
    {"signal", by_signal},
    {"trap", by_trap},
    {"crash-in-driver", by_crash_in_driver},
    {"exit-in-hook", by_exit_in_hook},
    {"_exit-in-hook", by__exit_in_hook},
    {"exit-in-callback", by_exit_in_callback},
    {"calls-at-exit", by_calls_at_exit},
    {"exit-in-crowd", by_exit_in_crowd},
    {"_exit-in-crowd", by__exit_in_crowd},
    {"abort-in-crowd", by_abort_in_crowd},
    {"exit-of-thread", by_exit_of_thread},
    {"main-leaving", by_main_leaving},
    {"main-exit-call", by_main_exit_call},
    {"exec", by_exec},
    {"exec-in-crowd", by_exec_in_crowd},
    {"dlclose", by_dlclose},
    {"cancel", by_cancel},
    {"vanishing-threads", by_vanishing_threads},
    {"kill", by_kill},
    {"kill-with-secrets", by_kill_with_secrets},
};

int main(int argc, char **argv) {
    static int n = 100;
    if (argc < 2)
        return 2;
    argument = argc > 2 ? argv[2] : "0";
    arguments = argv;
    context = cu_start();
    some_calls(200);
    pthread_join(begin(call_and_end, &n), NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, argv[1])) {
            kinds[i].end();
            return 0;
        }
    return 2;
}
