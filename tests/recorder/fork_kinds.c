// SPDX-License-Identifier: Apache-2.0
// Processes that fork: fork_kinds KIND [N]. A child of a process that has used CUDA cannot use it:
// its calls fail, and are recorded. The program prints the results of its calls.
#include "worker.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static CUcontext context;
static const char *argument;
static char *self;
static _Atomic int stop;

static void some_calls(int n) {
    CUdeviceptr kept[16] = {0};
    for (int i = 0; i < n; i++) {
        CUdeviceptr *p = &kept[i % 16];
        if (*p)
            cu_give(*p);
        *p = *p ? 0 : cu_take(1000 + (size_t)i);
    }
}

// Makes calls until it is stopped, but no more than its ring holds: on a busy machine forks take
// long, and the writer may have no core for as long.
static int rounds = 100;
static void *load(void *unused) {
    cu.set_context(context);
    for (int i = 0; !atomic_load(&stop); i++) {
        if (i < rounds)
            some_calls(50);
        usleep(1000);
    }
    return unused;
}

static int crowd(int threads, pthread_t *t) {
    for (int i = 0; i < threads; i++)
        if (pthread_create(&t[i], NULL, load, NULL))
            return 1;
    usleep(20000);
    return 0;
}

static void disperse(int threads, pthread_t *t) {
    atomic_store(&stop, 1);
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
}

static int wait_for(pid_t pid) {
    int status = 1;
    return pid <= 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static pid_t bare_clone(void) {
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static char *const *worker_arguments(void) {
    static char word[] = "calls", *arguments[] = {NULL, word, NULL};
    arguments[0] = self;
    return arguments;
}

// ---- kinds: 0, or what is wrong ---------------------------------------------------------------

// A process of its own, e.g. after exec.
static int calls(void) {
    context = cu_begin();
    some_calls(150);
    return 0;
}

static int child_calls(pid_t pid) {
    if (pid == 0) {
        some_calls(120);
        _exit(0);
    }
    some_calls(40);
    return wait_for(pid);
}

static int by_fork(void) {
    (void)calls();
    return child_calls(fork());
}
static int by_clone(void) {
    (void)calls();
    return child_calls(bare_clone());
}
// The child ends by exit: its handlers and destructors run.
static int child_exits(pid_t pid) {
    if (pid == 0) {
        some_calls(120);
        exit(0);
    }
    return wait_for(pid);
}
static int by_fork_and_exit(void) {
    (void)calls();
    return child_exits(fork());
}
static int by_quiet_fork(void) {
    (void)calls();
    const pid_t pid = fork();
    if (pid == 0)
        exit(0);
    some_calls(40);
    return wait_for(pid);
}
static void some_failures(int n) {
    for (int i = 0; i < n; i++) {
        CUdeviceptr p;
        (void)cu.alloc(&p, (size_t)1 << 50);
        cu.returned();
    }
}
// The last failures have no line yet: they are summed up, and a sum was printed less than a second
// ago.
static int by_fork_after_failures(void) {
    (void)calls();
    some_failures(12);
    usleep(100000);
    some_failures(3);
    usleep(100000); // the writer thread takes them out
    return child_exits(fork());
}
// Before the parent uses CUDA: both can.
static int by_early_fork(void) {
    const pid_t pid = fork();
    (void)calls();
    if (pid == 0)
        exit(0);
    return wait_for(pid);
}
static int by_generations(void) {
    (void)calls();
    const pid_t pid = fork();
    if (pid == 0) {
        some_calls(60);
        const pid_t grandchild = fork();
        some_calls(70);
        if (grandchild == 0)
            _exit(0);
        _exit(wait_for(grandchild));
    }
    return wait_for(pid);
}
// The first child makes no call, the second is left alone.
static int by_double_fork(void) {
    int ends[2];
    char c;
    if (pipe(ends))
        return 1;
    (void)calls();
    const pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() == 0) {
            some_calls(130);
            _exit(write(ends[1], "x", 1) != 1);
        }
        _exit(0);
    }
    close(ends[1]);
    return wait_for(pid) || read(ends[0], &c, 1) != 1 || read(ends[0], &c, 1) != 0;
}
static int by_daemon(void) {
    int ends[2];
    char c;
    if (pipe(ends))
        return 1;
    const pid_t pid = fork();
    if (pid == 0) {
        if (daemon(1, 1))
            _exit(1);
        (void)calls();
        exit(write(ends[1], "x", 1) != 1);
    }
    close(ends[1]);
    return wait_for(pid) || read(ends[0], &c, 1) != 1 || read(ends[0], &c, 1) != 0;
}
static int by_vfork(void) {
    (void)calls();
    const pid_t pid = vfork();
    if (pid == 0) {
        execv(self,
              worker_arguments()); // NOLINT(clang-analyzer-unix.Vfork): it only reads what is there
        _exit(127);
    }
    some_calls(40);
    return wait_for(pid);
}
static int by_spawn(void) {
    pid_t pid = 0;
    (void)calls();
    if (posix_spawn(&pid, self, NULL, NULL, worker_arguments(), environ))
        return 1;
    some_calls(40);
    return wait_for(pid);
}
static int by_system(void) {
    char line[4200];
    (void)calls();
    snprintf(line, sizeof line, "%s calls && %s calls", self, self);
    return system(line) != 0;
}

// A bare clone takes the C library's locks as they are. So this thread first has what its child
// needs of them: its own heap, and the driver's variables of its thread.
static void *fork_here(void *bad) {
    some_calls(1);
    for (int i = 0; i < 10; i++)
        *(int *)bad |= child_calls(i % 2 ? fork() : bare_clone());
    return NULL;
}
static int by_fork_in_crowd(void) {
    pthread_t crowded[4], two[2];
    int bad[2] = {0};
    (void)calls();
    if (crowd(4, crowded))
        return 1;
    for (int i = 0; i < 2; i++)
        pthread_create(&two[i], NULL, fork_here, &bad[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(two[i], NULL);
    disperse(4, crowded);
    return bad[0] || bad[1];
}

// Forks under load; every second child makes calls, every fourth makes threads that do.
static int by_storm(void) {
    pthread_t crowded[3];
    int bad = 0;
    rounds = 20 + 2 * atoi(argument);
    (void)calls();
    if (crowd(3, crowded))
        return 1;
    for (int i = 0, n = atoi(argument); i < n && !bad; i++) {
        const pid_t pid = i % 5 == 4 ? bare_clone() : fork();
        if (pid == 0) {
            pthread_t t;
            atomic_store(&stop, 1);
            if (i % 2)
                some_calls(20);
            // (a thread of a process that was cloned behind the C library's back has no sane
            // pthread)
            if (i % 4 == 3 && i % 5 != 4 && !pthread_create(&t, NULL, load, NULL))
                pthread_join(t, NULL);
            _exit(0);
        }
        bad = wait_for(pid);
    }
    disperse(3, crowded);
    return bad;
}

// Functions that the parent has not called, from places that are new.
static __attribute__((noinline)) void new_calls(int depth) {
    CUdeviceptr p;
    size_t pitch;
    if (depth) {
        new_calls(depth - 1);
        __asm__ volatile("");
        return;
    }
    (void)cu.managed(&p, 4096, 1);
    cu.returned();
    (void)cu.pitched(&p, &pitch, 100, 100, 4);
    cu.returned();
}

// The parent stops; the child waits for a byte, and makes so many calls that everything it has goes
// round.
static int by_fork_and_stop(pid_t pid) {
    char c;
    if (pid == 0) {
        if (read(0, &c, 1) != 1)
            _exit(1);
        for (int i = 0; i < 50; i++)
            new_calls(i);
        for (int i = 0; i < 5; i++)
            some_calls(2000);
        exit(write(1, "x", 1) != 1);
    }
    raise(SIGSTOP);
    some_calls(40);
    return wait_for(pid);
}
static int by_stopped_fork(void) {
    (void)calls();
    some_calls(3000);
    return by_fork_and_stop(fork());
}
static int by_stopped_clone(void) {
    (void)calls();
    some_calls(3000);
    return by_fork_and_stop(bare_clone());
}

static const struct {
    const char *name;
    int (*run)(void);
} kinds[] = {
    {"calls", calls},
    {"fork", by_fork},
    {"clone", by_clone},
    {"fork-and-exit", by_fork_and_exit},
    {"fork-after-failures", by_fork_after_failures},
    {"quiet-fork", by_quiet_fork},
    {"early-fork", by_early_fork},
    {"generations", by_generations},
    {"double-fork", by_double_fork},
    {"daemon", by_daemon},
    {"vfork", by_vfork},
    {"spawn", by_spawn},
    {"system", by_system},
    {"fork-in-crowd", by_fork_in_crowd},
    {"storm", by_storm},
    {"stopped-fork", by_stopped_fork},
    {"stopped-clone", by_stopped_clone},
};

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    self = argv[0];
    argument = argc > 2 ? argv[2] : "10";
    cu_load();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, argv[1]))
            return kinds[i].run();
    return 2;
}
