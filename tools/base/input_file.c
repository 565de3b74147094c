// SPDX-License-Identifier: Apache-2.0
#include "base/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/heap.h"

static int fail(int fd, int error, const char *what, const char **why) {
    if (fd >= 0)
        close(fd);
    *why = what;
    errno = error;
    return -1;
}

// A pipe that this process was born with, as a shell names it: <(command).
static int is_own_pipe(const char *path, const struct stat *st) {
    return S_ISFIFO(st->st_mode) &&
           (strncmp(path, "/dev/fd/", 8) == 0 || strcmp(path, "/dev/stdin") == 0);
}

int ct_input_file_open(const char *path, struct stat *st, const char **why) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, st))
        return fail(fd, errno, strerror(errno), why);
    if (S_ISDIR(st->st_mode))
        return fail(fd, EINVAL, "it is a folder; name the files in it", why);
    if (!S_ISREG(st->st_mode) && !is_own_pipe(path, st))
        return fail(fd, EINVAL, "it is no regular file; write what a pipe gives into one", why);
    (void)fcntl(fd, F_SETFL, 0); // (a pipe of one's own has a writer, and is waited for)
    return fd;
}

static FILE *to_stream(int fd, const char **why) {
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd >= 0 && !in)
        (void)fail(fd, errno, strerror(errno), why);
    return in;
}

FILE *ct_input_file_open_stream(const char *path, const char **why) {
    struct stat st;
    return to_stream(ct_input_file_open(path, &st, why), why);
}

static int copy(int from, int to) {
    char bytes[1 << 16];
    ssize_t n;
    while ((n = read(from, bytes, sizeof bytes)) != 0)
        if (n > 0 ? write(to, bytes, (size_t)n) != n : errno != EINTR)
            return -1;
    return 0;
}

// Reads a pipe of one's own to its end, and puts a file in memory in its place: whoever opens the
// path again reads that from its beginning.
static int keep_pipe(const char *path, int fd) {
    const int own = strncmp(path, "/dev/fd/", 8) == 0 ? atoi(path + 8) : STDIN_FILENO;
    const int memory = memfd_create("input", MFD_CLOEXEC);
    const int failed = memory < 0 || copy(fd, memory) || dup2(memory, own) < 0 ? errno : 0;
    if (memory >= 0)
        close(memory);
    return failed;
}

FILE *ct_input_file_open_seekable(const char *path, const char **why) {
    struct stat st;
    if (strcmp(path, "-") == 0)
        path = "/dev/stdin";
    int fd = ct_input_file_open(path, &st, why);
    if (fd >= 0 && !S_ISREG(st.st_mode)) {
        const int failed = keep_pipe(path, fd);
        close(fd);
        fd = failed ? fail(-1, failed, strerror(failed), why) : ct_input_file_open(path, &st, why);
    }
    return to_stream(fd, why);
}

// ---- texts as files -----------------------------------------------------------------------------

int ct_memory_file_make(const void *bytes, size_t n, char path[CT_MEMORY_FILE_PATH]) {
    const int fd = memfd_create("text", MFD_CLOEXEC);
    if (fd < 0)
        ct_heap_exhausted();
    for (size_t done = 0; done < n;) {
        const ssize_t written = write(fd, (const char *)bytes + done, n - done);
        if (written <= 0 && errno != EINTR)
            ct_heap_exhausted();
        done += written > 0 ? (size_t)written : 0;
    }
    (void)snprintf(path, CT_MEMORY_FILE_PATH, "/proc/self/fd/%d", fd);
    return fd;
}
