// SPDX-License-Identifier: Apache-2.0
// Reads small files without stdio, which would allocate from the host's heap.
#include "base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

size_t ct_read_file(const char *path, char *out, size_t size) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    if (fd < 0)
        return 0;
    for (ssize_t got; n < size && (got = read(fd, out + n, size - n)) > 0;)
        n += (size_t)got;
    close(fd);
    return n;
}
