// SPDX-License-Identifier: Apache-2.0
// The files that this library opens, out of the program's sight.
//
// A program counts its descriptors, closes them in bulk, expects the lowest free number, writes to
// 1 or 2 although it has closed them, and loses its POSIX lock on a file when any descriptor of
// that file is closed in its table. Therefore the library has a descriptor table of its own: two
// threads, the keepers, share it, and make the calls below for the calling thread, which waits for
// them. So nothing of the library's ever has a number in the program's table, not for a moment.
//
// Where the table is refused (close_range with CLOSE_RANGE_UNSHARE: Linux 5.9; seccomp), where no
// thread can be created, without /proc, and before ct_files_start, the calling thread makes the
// calls itself, in the program's table; ct_files_are_apart tells. It opens no file as descriptor 0,
// 1 or 2: during the call, O_PATH descriptors, which refuse read and write, occupy free ones.
//
// A descriptor of the keepers' is a handle that only these functions take. It means nothing to
// close(2), and in a forked child, which has no keepers, nothing to these functions: EBADF.
//
// Any thread at any time; meanwhile no signal is delivered and no thread cancelled. The functions
// return as the system calls do, with errno.
#ifndef CT_BASE_FILES_H
#define CT_BASE_FILES_H

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

// Starts the keepers, which stay until the process ends. One thread at a time; a second call does
// nothing.
void ct_files_start(void);

// How many threads the process has besides the keepers; 0: /proc does not tell. A main thread that
// has ended before the others counts.
unsigned ct_files_count_other_threads(void);

// Whether the library's files have a table of their own. Why not, for INFO: NULL if they have.
int ct_files_are_apart(void);
const char *ct_files_get_reason(void);

// In a forked child, which has no keepers.
void ct_files_reinit_child(void);

// Runs `work` in a keeper and returns its result, 0 or more, or -errno: for several calls at once.
// It may take no lock. -EBUSY: all keepers have been busy for a second, `work` did not run.
long ct_files_run(long (*work)(void *argument), void *argument);

// O_CLOEXEC, O_NOCTTY and, to not wait for a FIFO, O_NONBLOCK are always added; the mode is 0600.
int ct_open(const char *path, int flags);
int ct_openat(int folder, const char *path, int flags);
void ct_close(int fd);
ssize_t ct_read(int fd, void *to, size_t n);
ssize_t ct_pread(int fd, void *to, size_t n, off_t at);
ssize_t ct_write(int fd, const void *from, size_t n);
ssize_t ct_pwrite(int fd, const void *from, size_t n, off_t at);
int ct_fstat(int fd, struct stat *st);
int ct_lstatat(int folder, const char *path, struct stat *st);
int ct_fstatfs(int fd, struct statfs *fs);
int ct_ftruncate(int fd, off_t bytes);
int ct_fallocate(int fd, off_t at, off_t bytes);
int ct_flock(int fd, int operation);
int ct_unlinkat(int folder, const char *path);
ssize_t ct_readlinkat(int folder, const char *path, char *to, size_t size);
int ct_faccessat(int folder, const char *path);
long ct_getdents(int fd, void *to, size_t size);
// For a descriptor that stays open: gives it a high number where it lies in the program's table.
// Programs close low ones in bulk, and expect the lowest free one. Returns the new one.
int ct_files_keep(int fd);
// MAP_SHARED, readable and writable, at `where` if that is not NULL. MAP_FAILED.
void *ct_map(int fd, void *where, size_t bytes, off_t at);

#endif
