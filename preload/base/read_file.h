// SPDX-License-Identifier: Apache-2.0
// Reads files of /proc and /sys into the caller's memory, the names in a folder, and the mappings
// of a process: without the host's heap (stdio and readdir(3) allocate), the loader, or its locks.
// Any thread.
#ifndef CT_BASE_READ_FILE_H
#define CT_BASE_READ_FILE_H

#include <stddef.h>
#include <stdint.h>

// Reads at most `size` bytes and adds no terminator. Returns how many bytes were read; 0 if the
// file cannot be read.
size_t ct_read_file(const char *path, char *out, size_t size);

// The number after a label such as "PPid:" at the beginning of a line. Returns whether it is there.
int ct_read_number_after(const char *text, const char *label, uint64_t *number);

// The part of a path after the last slash.
const char *ct_base_name(const char *path);

// Where a folder's entries lie while they are visited: the caller's, because the host's thread may
// have a small stack, and because two threads may read folders at the same time.
struct ct_folder_room {
    _Alignas(uint64_t) char bytes[16 << 10];
};

// Calls `visit` for each name in the open folder, "." and ".." too, with its type (DT_*), until it
// returns other than 0.
void ct_read_folder(int fd, struct ct_folder_room *room,
                    int (*visit)(void *user, const char *name, unsigned type), void *user);

// A mapping of a file. The path is cut if it is very long, and valid during the visit alone.
struct ct_mapping {
    uint64_t start, end, offset;
    uint64_t device, inode;
    int is_executable;
    const char *path;
};

// Calls `visit` for each mapping of a file, in the order of addresses, until it returns other than
// 0. Returns 0, or -errno if the file cannot be read. May wait for locks of that process's memory.
int ct_maps_read(const char *file, int (*visit)(void *user, const struct ct_mapping *m),
                 void *user);

#endif
