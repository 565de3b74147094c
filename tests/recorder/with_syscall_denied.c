// SPDX-License-Identifier: Apache-2.0
// Runs a program in which one system call fails: with_syscall_denied CALL ERRNO PROGRAM
// ARGUMENTS...
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ANY 0u
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// `flags`: refused only if its argument has one of these bits.
static const struct {
    const char *name;
    unsigned number, argument, flags;
} calls[] = {
    {"fallocate", SYS_fallocate, 0, ANY},
    {"ftruncate", SYS_ftruncate, 0, ANY},
    {"memfd_create", SYS_memfd_create, 0, ANY},
    {"madvise", SYS_madvise, 0, ANY},
    {"mmap-shared", SYS_mmap, 3, MAP_SHARED},
    {"membarrier", SYS_membarrier, 0, ANY},
    {"pwrite", SYS_pwrite64, 0, ANY},
    {"futex", SYS_futex, 0, ANY},
    {"prctl", SYS_prctl, 0, ANY},
    {"getrandom", SYS_getrandom, 0, ANY},
    {"tgkill", SYS_tgkill, 0, ANY},
    {"sched_yield", SYS_sched_yield, 0, ANY},
    {"clone3", SYS_clone3, 0, ANY},
    {"unlinkat", SYS_unlinkat, 0, ANY},
#ifdef SYS_unlink
    {"unlink", SYS_unlink, 0, ANY},
#endif
    {"newfstatat", SYS_newfstatat, 0, ANY},
    {"fstat", SYS_fstat, 0, ANY},
    {"readlinkat", SYS_readlinkat, 0, ANY},
    {"rt_sigprocmask", SYS_rt_sigprocmask, 0, ANY},
    {"rt_sigtimedwait", SYS_rt_sigtimedwait, 0, ANY},
    {"sched_getaffinity", SYS_sched_getaffinity, 0, ANY},
    {"clock_gettime", SYS_clock_gettime, 0, ANY},
    {"uname", SYS_uname, 0, ANY},
    {"fcntl", SYS_fcntl, 0, ANY},
    {"pread", SYS_pread64, 0, ANY},
    {"mremap", SYS_mremap, 0, ANY},
    {"close_range", SYS_close_range, 0, ANY},
    {"process_vm_readv", SYS_process_vm_readv, 0, ANY},
};

static int refuse(unsigned number, unsigned argument, unsigned flags, unsigned error) {
    const unsigned at = (unsigned)offsetof(struct seccomp_data, args) + 8 * argument;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    if (!flags) // whatever the argument is
        code[3] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, 0);
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "list")) {
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
            puts(calls[i].name);
        return 0;
    }
    for (size_t i = 0; argc > 3 && i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, argv[1])) {
            const char *preload = getenv("FENCED_PRELOAD"); // not for this program itself
            if (preload)
                setenv("LD_PRELOAD", preload, 1);
            if (refuse(calls[i].number, calls[i].argument, calls[i].flags, (unsigned)atoi(argv[2])))
                return 77;
            execv(argv[3], argv + 3);
        }
    return 78;
}
