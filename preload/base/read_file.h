// SPDX-License-Identifier: Apache-2.0
// Reads small files of /proc and /sys into the caller's memory, and the names in a folder, without
// the host's heap: stdio and readdir(3) allocate. Any thread.
#ifndef CT_BASE_READ_FILE_H
#define CT_BASE_READ_FILE_H

#include <stddef.h>

// Reads at most `size` bytes and adds no terminator. Returns how many bytes were read; 0 if the
// file cannot be read.
size_t ct_read_file(const char *path, char *out, size_t size);

// Calls `visit` for each name in the open folder, "." and ".." too, until it returns other than 0.
void ct_read_folder(int fd, int (*visit)(void *user, const char *name), void *user);

#endif
