// SPDX-License-Identifier: Apache-2.0
// A library to preload that makes system calls on the trace and its journal fail.
//   FAULT_CALLS=fallocate,pwrite   the calls that fail       FAULT_ERRNO=28   their error
//   FAULT_AFTER=3                  number that succeed first
//   FAULT_FOR=2                    number that fail then (0: all)
//   FAULT_WHILE=PATH               they fail only while this file exists
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int seen;

static int is_ours(const char *path) {
    const char *name = strrchr(path, '/');
    return strstr(name ? name : path, "trace.") != NULL;
}

static int is_our_file(int fd) {
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && is_ours(path);
}

static int number(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static int is_named(const char *call) {
    const char *calls = getenv("FAULT_CALLS");
    const char *at = calls ? strstr(calls, call) : NULL;
    const size_t n = strlen(call);
    return at && (at == calls || at[-1] == ',') && (at[n] == '\0' || at[n] == ',');
}

static int fails(const char *call, int ours) {
    const char *file = getenv("FAULT_WHILE");
    if (!ours || !is_named(call) || (file && access(file, F_OK)))
        return 0;
    const int n = atomic_fetch_add(&seen, 1), after = number("FAULT_AFTER"),
              most = number("FAULT_FOR");
    if (n < after || (most && n >= after + most))
        return 0;
    errno = number("FAULT_ERRNO");
    return 1;
}

int fallocate64(int fd, int mode, off64_t offset, off64_t bytes) {
    return fails("fallocate", is_our_file(fd))
               ? -1
               : (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
    return fallocate64(fd, mode, offset, bytes);
}

int ftruncate64(int fd, off64_t bytes) {
    return fails("ftruncate", is_our_file(fd)) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}
int ftruncate(int fd, off_t bytes) {
    return ftruncate64(fd, bytes);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
    return fails("pwrite", is_our_file(fd)) ? -1 : syscall(SYS_pwrite64, fd, data, bytes, offset);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
    return pwrite64(fd, data, bytes, offset);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    return fails("write", is_our_file(fd)) ? -1 : syscall(SYS_write, fd, data, bytes);
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return fails("open", is_ours(path)) ? -1
                                        : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return open64(path, flags, mode);
}

void *mmap64(void *where, size_t bytes, int protection, int flags, int fd, off64_t offset) {
    if (fails("mmap", fd >= 0 && is_our_file(fd)))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, where, bytes, protection, flags, fd, offset); // NOLINT
}
void *mmap(void *where, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return mmap64(where, bytes, protection, flags, fd, offset);
}
