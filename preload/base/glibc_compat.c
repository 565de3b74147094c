// SPDX-License-Identifier: Apache-2.0
// The few C library functions that exist only under a version newer than GLIBC_2.28, for the whole library
// (the static archives included): hidden, so that the host never sees them. The others are asked for by
// their old version, see scripts/glibc-symvers.sh.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define CT_HIDDEN __attribute__((visibility("hidden")))

#ifdef __x86_64__
#define CT_STAT_VERSION 1
#else
#define CT_STAT_VERSION 0
#endif

// What stat() and its sisters called before glibc 2.33 made them functions of their own. Still exported.
int __xstat(int version, const char *path, struct stat *out);
int __lxstat(int version, const char *path, struct stat *out);
int __fxstat(int version, int fd, struct stat *out);
int __fxstatat(int version, int dir, const char *path, struct stat *out, int flags);

CT_HIDDEN int stat(const char *restrict path, struct stat *restrict out) {
    return __xstat(CT_STAT_VERSION, path, out);
}

CT_HIDDEN int lstat(const char *restrict path, struct stat *restrict out) {
    return __lxstat(CT_STAT_VERSION, path, out);
}

CT_HIDDEN int fstat(int fd, struct stat *out) {
    return __fxstat(CT_STAT_VERSION, fd, out);
}

CT_HIDDEN int fstatat(int dir, const char *restrict path, struct stat *restrict out, int flags) {
    return __fxstatat(CT_STAT_VERSION, dir, path, out, flags);
}

CT_HIDDEN pid_t gettid(void) {
    return (pid_t)syscall(SYS_gettid);
}
