// SPDX-License-Identifier: Apache-2.0
// Runs a program and tells what it does to its descriptors, or a library for it, by whatever system
// call: watch_files REPORT PROGRAM ARGUMENTS...
// Each call that makes or closes a descriptor is a line of REPORT, if its thread has the program's
// descriptors and not some of its own, from the moment on when the program closes the descriptor
// -4711. So is each standard descriptor that such a call finds open, once.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MARK = 77, NO_PATH = -1 }; // MARK: a descriptor that only the program's own table has

static const struct {
    const char *name;
    int number, path; // which argument is a path
} calls[] = {
    {"openat", SYS_openat, 1},
    {"openat2", SYS_openat2, 1},
    {"close", SYS_close, NO_PATH},
    {"dup", SYS_dup, NO_PATH},
    {"dup3", SYS_dup3, NO_PATH},
    {"fcntl", SYS_fcntl, NO_PATH},
    {"pipe2", SYS_pipe2, NO_PATH},
    {"socket", SYS_socket, NO_PATH},
    {"memfd_create", SYS_memfd_create, 0},
    {"eventfd2", SYS_eventfd2, NO_PATH},
    {"timerfd_create", SYS_timerfd_create, NO_PATH},
    {"epoll_create1", SYS_epoll_create1, NO_PATH},
    {"inotify_init1", SYS_inotify_init1, NO_PATH},
    {"pidfd_open", SYS_pidfd_open, NO_PATH},
    {"userfaultfd", SYS_userfaultfd, NO_PATH},
    {"perf_event_open", SYS_perf_event_open, NO_PATH},
#ifdef SYS_open
    {"open", SYS_open, 0},
    {"dup2", SYS_dup2, NO_PATH},
#endif
};
enum { CALLS = sizeof calls / sizeof *calls };

// Returns the descriptor that is told of the calls, or -1.
static int watch_this_process(void) {
    struct sock_filter code[CALLS + 3];
    unsigned short n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < CALLS; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (unsigned)calls[i].number, CALLS - i, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    const struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

static int link_of(unsigned thread, int fd, char *target, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%u/fd/%d", thread, fd);
    const ssize_t n = readlink(link, target, size - 1);
    target[n > 0 ? n : 0] = 0;
    return n > 0;
}

static void tell_path(FILE *report, unsigned thread, uint64_t address) {
    char path[256] = "";
    const struct iovec here = {path, sizeof path - 1}, there = {(void *)(uintptr_t)address, 200};
    if (process_vm_readv((pid_t)thread, &here, 1, &there, 1, 0) > 0)
        fprintf(report, " %s", path);
}

static void tell_standard_descriptors(FILE *report, unsigned thread) {
    static int known[3];
    char target[256];
    for (int fd = 0; fd < 3; fd++)
        if (!known[fd] && link_of(thread, fd, target, sizeof target)) {
            fprintf(report, "%d is %s\n", fd, target);
            known[fd] = 1;
        }
}

static void tell(FILE *report, const struct seccomp_notif *call) {
    static int begun;
    char unused[64];
    unsigned i = 0;
    begun |= call->data.nr == SYS_close && (int)call->data.args[0] == -4711;
    if (!begun || !link_of(call->pid, MARK, unused, sizeof unused))
        return;
    tell_standard_descriptors(report, call->pid);
    while (calls[i].number != call->data.nr)
        i++;
    fprintf(report, "%s", calls[i].name);
    if (calls[i].path == NO_PATH)
        fprintf(report, " %d", (int)call->data.args[0]);
    else
        tell_path(report, call->pid, call->data.args[calls[i].path]);
    fputc('\n', report);
}

static void watch(FILE *report, int listener) {
    struct pollfd next = {.fd = listener, .events = POLLIN};
    while (poll(&next, 1, -1) == 1 && !(next.revents & POLLHUP)) {
        struct seccomp_notif call = {0};
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
            continue; // it was killed meanwhile
        tell(report, &call);
        struct seccomp_notif_resp go_on = {.id = call.id,
                                           .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &go_on);
    }
}

// A child that has this process's descriptors until it becomes the program: so the listener, which
// is closed there then, stays here.
static pid_t start(char **command, volatile int *listener) {
    const pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (pid)
        return pid;
    *listener = watch_this_process();
    execv(command[0], command);
    _exit(78);
}

int main(int argc, char **argv) {
    volatile int *const listener =
        mmap(NULL, sizeof *listener, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *report = argc > 2 ? fopen(argv[1], "we") : NULL;
    int status = 0;
    if (!report || dup2(fileno(report), MARK) != MARK)
        return 2;
    *listener = -2;
    const pid_t pid = start(argv + 2, listener);
    while (*listener == -2)
        sched_yield();
    if (*listener >= 0)
        watch(report, *listener);
    if (waitpid(pid, &status, 0) != pid || fclose(report) || *listener < 0)
        return 77;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
