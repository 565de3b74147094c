// SPDX-License-Identifier: Apache-2.0
// A library to preload for which folders below HANGS_IN are on a file system that does not answer:
// a thread that opens one as a folder waits for ever. It makes the file HANGS_SAID first.
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_file(const char *path, int flags, mode_t mode) {
    const char *in = getenv("HANGS_IN"), *said = getenv("HANGS_SAID");
    if (in && said && (flags & O_DIRECTORY) && !strncmp(path, in, strlen(in))) {
        close((int)syscall(SYS_openat, AT_FDCWD, said, O_WRONLY | O_CREAT, 0600));
        for (;;)
            pause();
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open_file(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open_file(path, flags, mode);
}
