// SPDX-License-Identifier: Apache-2.0
// Writes a file that appears under its name only when it is complete. A path that exists and is no
// regular file (a pipe, a device) is written to directly, and so is standard output, "-". One file
// at a time: the struct must not move while it is open, and if the program ends before, what was
// written is removed.
#ifndef CT_NEW_FILE_H
#define CT_NEW_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "read/source.h"

struct ct_new_file {
    const char *path;
    char part[4200];
    int fd;
    int in_place; // `path` is no regular file, or "-", and is written to directly
    uint64_t bytes;
    struct ct_error error;
};

// Whether the path names a file or folder that a new file would replace.
int ct_new_file_would_replace(const char *path);
// Each of these returns 0, or -1 with `error` set (CT_EXIT_OUTPUT) and the partial file removed.
int ct_new_file_open(struct ct_new_file *f, const char *path);
int ct_new_file_write(struct ct_new_file *f, const void *bytes, size_t n);
// Copies the bytes [from, to) of a source.
int ct_new_file_copy(struct ct_new_file *f, const struct ct_source *source, uint64_t from,
                     uint64_t to);
// Gives the file its name.
int ct_new_file_commit(struct ct_new_file *f);
// Removes the partial file.
void ct_new_file_discard(struct ct_new_file *f);

#endif
