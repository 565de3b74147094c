// SPDX-License-Identifier: Apache-2.0
// Whether an address can be read: asks the kernel, for this room and for libunwind, without
// descriptors in the host.
//
// Where a frame has no unwind information, libunwind guesses and first probes the address: it
// writes a byte from there into a pipe of its own (src/x86_64/Ginit.c, write_validate). A host that
// closes all descriptors and opens new ones reuses the numbers of that pipe: libunwind would then
// read a byte of the host's file, or write a byte of the stack into the host's socket. So the build
// renames these calls of libunwind.a (module.mk) to the functions below.
#define _GNU_SOURCE
#include "stack/unwind_access.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

int ct_unwind_access_pipe2(int fds[2], int flags);
ssize_t ct_unwind_access_read(int fd, void *to, size_t n);
ssize_t ct_unwind_access_write(int fd, const void *from, size_t n);
long ct_unwind_access_syscall(long number, int fd, const void *from, size_t n);

// No pipe is opened: libunwind's descriptors stay -1.
int ct_unwind_access_pipe2(int fds[2], int flags) {
    (void)fds;
    (void)flags;
    errno = EMFILE;
    return -1;
}

// libunwind drains its pipe before a probe. The pipe is always empty.
ssize_t ct_unwind_access_read(int fd, void *to, size_t n) {
    (void)fd;
    (void)to;
    (void)n;
    errno = EAGAIN;
    return -1;
}

// rt_sigprocmask with an invalid `how` changes nothing. The kernel copies the signal set before it
// checks `how`: the error is EFAULT if the set cannot be read, else EINVAL. Every sandbox in which
// programs run allows this call.
int ct_unwind_access_is_readable(const void *address) {
    const void *aligned = (const void *)((uintptr_t)address & ~(uintptr_t)7);
    return syscall(SYS_rt_sigprocmask, ~0, aligned, NULL, 8) == -1 && errno == EINVAL;
}

ssize_t ct_unwind_access_write(int fd, const void *from, size_t n) {
    (void)fd;
    (void)n;
    const int is_readable = ct_unwind_access_is_readable(from);
    errno = 0; // libunwind checks errno even after a success
    return is_readable ? 1 : -1;
}

// libunwind makes no other call than SYS_write through syscall().
long ct_unwind_access_syscall(long number, int fd, const void *from, size_t n) {
    (void)number;
    return ct_unwind_access_write(fd, from, n);
}
