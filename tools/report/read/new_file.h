// SPDX-License-Identifier: Apache-2.0
// A file that is there under its name only when it is whole. (What is there already and is no file, as a pipe, is written to as it is.)
#ifndef CT_NEW_FILE_H
#define CT_NEW_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "read/source.h"

struct ct_new_file {
    const char *path;
    char part[4200];
    int fd, in_place;
    uint64_t bytes;
    struct ct_error error;
};

// Whether there is a file that would be replaced.
int ct_new_file_would_replace(const char *path);
// Each returns 0, or -1 with the error set (CT_EXIT_OUTPUT); then what was written is gone.
int ct_new_file_open(struct ct_new_file *f, const char *path);
int ct_new_file_write(struct ct_new_file *f, const void *bytes, size_t n);
// Bytes of a source; a filler frame up to where a chunk may begin.
int ct_new_file_copy(struct ct_new_file *f, const struct ct_source *source, uint64_t from,
                     uint64_t to);
int ct_new_file_align(struct ct_new_file *f);
int ct_new_file_commit(struct ct_new_file *f);
// Gives it up.
void ct_new_file_discard(struct ct_new_file *f);

#endif
