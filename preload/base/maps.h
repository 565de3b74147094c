// SPDX-License-Identifier: Apache-2.0
// Reads the mappings of a process from /proc/PID/maps, without the loader, its locks, or the host's
// heap.
#ifndef CT_BASE_MAPS_H
#define CT_BASE_MAPS_H

#include <stdint.h>

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

// The part of a path after the last slash.
const char *ct_maps_base_name(const char *path);

#endif
