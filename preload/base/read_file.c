// SPDX-License-Identifier: Apache-2.0
// Reads small files and folders without stdio and readdir(3).
#define _GNU_SOURCE
#include "base/read_file.h"

#include <fcntl.h>
#include <stdint.h>

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

// As getdents64(2) returns it.
struct name_entry {
    uint64_t inode, offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

void ct_read_folder(int fd, int (*visit)(void *user, const char *name), void *user) {
    _Alignas(struct name_entry) char buffer[16 << 10];
    long n;
    while ((n = ct_getdents(fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < n; at += ((const struct name_entry *)(buffer + at))->bytes)
            if (visit(user, ((const struct name_entry *)(buffer + at))->name))
                return;
}
