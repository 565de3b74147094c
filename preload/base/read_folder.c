// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/read_folder.h"

#include <stdint.h>

#include "base/files.h"

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
