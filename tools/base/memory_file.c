// SPDX-License-Identifier: Apache-2.0
#include "base/memory_file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/heap.h"

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
