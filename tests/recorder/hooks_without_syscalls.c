// SPDX-License-Identifier: Apache-2.0
// Hooks that must make no system call and allocate no memory: hooks_without_syscalls [PLANT] After
// a warm-up, a thread makes 100,000 calls under a filter that traps each of its system calls, with
// an allocator that rejects it. Only the system call that wakes the writer is allowed and counted.
// PLANT (syscall, malloc) breaks a rule. Prints how often the writer was woken. HOOKS_MAY_YIELD: a
// hook may give its core up, too, as it does while its ring is full (the writer writes a chunk).
#include "worker.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WARM_UP = 20000, CALLS = 100000, BATCH = 1000, KEPT = 64 };
#define LET_THROUGH 0x5afe5afeu // last argument of what the handler does itself

static _Thread_local volatile int quiet;
static _Atomic long wakes, begun, granted;
static _Atomic int done;
static int may_yield;

static void fail(const char *what, long number) {
    char line[128];
    const int n = snprintf(line, sizeof line, "%s in a hook: %ld\n", what, number);
    syscall(SYS_write, 2, line, n, 0, 0, LET_THROUGH);
    syscall(SYS_exit_group, 99, 0, 0, 0, 0, LET_THROUGH);
}

// ---- the allocator ----------------------------------------------------------------------------

extern void *__libc_malloc(size_t);           // NOLINT
extern void *__libc_calloc(size_t, size_t);   // NOLINT
extern void *__libc_realloc(void *, size_t);  // NOLINT
extern void __libc_free(void *);              // NOLINT
extern void *__libc_memalign(size_t, size_t); // NOLINT

static void allocates(void) {
    if (quiet)
        fail("the allocator", 0);
}
void *malloc(size_t n) {
    allocates();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    allocates();
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    allocates();
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
    allocates();
    return __libc_memalign(align, n);
}
void free(void *p) {
    allocates();
    __libc_free(p);
}

// ---- the filter -------------------------------------------------------------------------------

static void trapped(int number, siginfo_t *info, void *registers) {
    const ucontext_t *u = registers;
    (void)number;
#if defined(__x86_64__)
    const greg_t *r = u->uc_mcontext.gregs;
    const long a[] = {r[REG_RDI], r[REG_RSI], r[REG_RDX]};
#else
    const unsigned long long *r = u->uc_mcontext.regs;
    const long a[] = {(long)r[0], (long)r[1], (long)r[2]};
#endif
    if (info->si_syscall == SYS_sched_yield && may_yield) {
        syscall(SYS_sched_yield, 0, 0, 0, 0, 0, LET_THROUGH);
        return;
    }
    if (info->si_syscall != SYS_futex || (a[1] & FUTEX_CMD_MASK) != FUTEX_WAKE)
        fail("a system call", info->si_syscall);
    atomic_fetch_add(&wakes, 1);
    syscall(SYS_futex, a[0], a[1], a[2], NULL, NULL, LET_THROUGH);
}

static void trap_system_calls(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LET_THROUGH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    sigaction(SIGSYS, &(struct sigaction){.sa_sigaction = trapped, .sa_flags = SA_SIGINFO}, NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) // of this thread only
        exit(77);
}

// ---- the work ---------------------------------------------------------------------------------

static CUdeviceptr kept[KEPT];

static __attribute__((noinline)) void deep(int depth, int i) {
    if (depth) {
        deep(depth - 1, i);
        __asm__ volatile("");
        return;
    }
    CUdeviceptr *p = &kept[i % KEPT];
    if (*p)
        (void)cu.release(*p);
    if (cu.alloc(p, 512))
        exit(4);
}

static void call(int n) {
    for (int i = 0; i < n; i++)
        deep(i % 3 * 10, i);
}

static void *produce(void *plant) {
    for (int i = 0; i < (WARM_UP + CALLS) / BATCH; i++) {
        if (i == WARM_UP / BATCH) { // (in one loop: to learn a new stack may take system calls)
            trap_system_calls();
            quiet = 1;
        }
        // The other thread paces this one, so that the writer can follow.
        atomic_fetch_add(&begun, 1);
        while (atomic_load(&granted) < atomic_load(&begun))
            __asm__ volatile("");
        call(BATCH / 2); // each is one that gives and one that takes
    }
    if (plant && !strcmp(plant, "syscall"))
        (void)getppid();
    void *volatile taken = plant && !strcmp(plant, "malloc") ? malloc(10) : NULL;
    (void)taken;
    quiet = 0;
    atomic_store(&done, 1);
    for (;;) // (its end would be a system call)
        __asm__ volatile("");
    return NULL;
}

// Whether the writer sleeps: while it is at work, or waits for a processor, it gets no more to do.
static int writer_sleeps(void) {
    static char path[300];
    char text[300] = "";
    DIR *tasks = *path ? NULL : opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        FILE *f =
            (snprintf(text, sizeof text, "/proc/self/task/%s/stat", e->d_name), fopen(text, "r"));
        char name[64] = "";
        if (f && fscanf(f, "%*d (%63[^)])", name) == 1 && !strcmp(name, "cutrace"))
            memcpy(path, text, sizeof path);
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    FILE *f = *path ? fopen(path, "r") : NULL;
    char state = 'R';
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'R';
    if (f)
        fclose(f);
    return state == 'S';
}

int main(int argc, char **argv) {
    pthread_t t;
    may_yield = getenv("HOOKS_MAY_YIELD") != NULL;
    cu_start();
    if (pthread_create(&t, NULL, produce, argc > 1 ? argv[1] : NULL))
        return 6;
    while (!atomic_load(&done)) {
        usleep(500);
        if (!writer_sleeps())
            continue;
        atomic_store(&granted, atomic_load(&begun));
    }
    printf("%ld\n", atomic_load(&wakes));
    fflush(stdout);
    _exit(0);
}
