// SPDX-License-Identifier: Apache-2.0
// C library functions that exist only in a version newer than GLIBC_2.28, for this library, the
// programs of tools/ and the static archives in them, and hidden from the host. All other functions
// are linked in an old version: scripts/glibc-symvers.sh.
#define _GNU_SOURCE
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

// The functions that stat() and its relatives were macros for before glibc 2.33. glibc still
// exports them.
int __xstat(int version, const char *path, struct stat *out);
int __lxstat(int version, const char *path, struct stat *out);
int __fxstat(int version, int fd, struct stat *out);
int __fxstatat(int version, int dir, const char *path, struct stat *out, int flags);

// The names with 64 are those of the static archives: the same structure, on machines of 64 bits.
#define CT_STATS(suffix)                                                                        \
    CT_HIDDEN int stat##suffix(const char *restrict path, struct stat##suffix *restrict out) {  \
        return __xstat(CT_STAT_VERSION, path, (struct stat *)out);                              \
    }                                                                                           \
    CT_HIDDEN int lstat##suffix(const char *restrict path, struct stat##suffix *restrict out) { \
        return __lxstat(CT_STAT_VERSION, path, (struct stat *)out);                             \
    }                                                                                           \
    CT_HIDDEN int fstat##suffix(int fd, struct stat##suffix *out) {                             \
        return __fxstat(CT_STAT_VERSION, fd, (struct stat *)out);                               \
    }                                                                                           \
    CT_HIDDEN int fstatat##suffix(int dir, const char *restrict path,                           \
                                  struct stat##suffix *restrict out, int flags) {               \
        return __fxstatat(CT_STAT_VERSION, dir, path, (struct stat *)out, flags);               \
    }
CT_STATS()
CT_STATS(64)

CT_HIDDEN pid_t gettid(void) {
    return (pid_t)syscall(SYS_gettid);
}
