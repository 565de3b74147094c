// SPDX-License-Identifier: Apache-2.0
// How libunwind asks whether an address may be read, without descriptors in the host.
//
// Where a frame has no unwind information, libunwind guesses and first tries the address out: it
// writes a byte from there into a pipe of its own (src/x86_64/Ginit.c, write_validate). A host that
// closes descriptors and opens its own would find that pipe's numbers reused: a byte of its file
// read away, a byte of stack written into its socket. The build renames the calls of libunwind.a
// (module.mk) to the functions below.
#define _GNU_SOURCE
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

// There is no pipe: its descriptors stay -1.
int ct_unwind_access_pipe2(int fds[2], int flags) {
    (void)fds;
    (void)flags;
    errno = EMFILE;
    return -1;
}

// The pipe is empty, as it should be.
ssize_t ct_unwind_access_read(int fd, void *to, size_t n) {
    (void)fd;
    (void)to;
    (void)n;
    errno = EAGAIN;
    return -1;
}

// The kernel reads the set of signals before it looks at how, which is none that it knows: EFAULT
// if it cannot be read, else EINVAL. Nothing is changed, and no sandbox that lets programs run
// forbids it.
ssize_t ct_unwind_access_write(int fd, const void *from, size_t n) {
    const void *aligned = (const void *)((uintptr_t)from & ~(uintptr_t)7);
    (void)fd;
    (void)n;
    const int readable = syscall(SYS_rt_sigprocmask, ~0, aligned, NULL, 8) == -1 && errno == EINVAL;
    errno = 0; // libunwind looks at it even after a success
    return readable ? 1 : -1;
}

// Called for SYS_write only.
long ct_unwind_access_syscall(long number, int fd, const void *from, size_t n) {
    (void)number;
    return ct_unwind_access_write(fd, from, n);
}
