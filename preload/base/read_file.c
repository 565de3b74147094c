// SPDX-License-Identifier: Apache-2.0
// Reads small files without stdio, which would allocate from the host's heap.
#include "base/read_file.h"

#include <fcntl.h>

#include "base/files.h"

size_t ct_read_file(const char *path, char *out, size_t size) {
    const int fd = ct_open(path, O_RDONLY);
    size_t n = 0;
    if (fd < 0)
        return 0;
    for (ssize_t got; n < size && (got = ct_read(fd, out + n, size - n)) > 0;)
        n += (size_t)got;
    ct_close(fd);
    return n;
}
