// SPDX-License-Identifier: Apache-2.0
// The bytes of a trace, from a file or from standard input, at any offset.
#ifndef CT_SOURCE_H
#define CT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct ct_source {
    const char *name; // for messages; "-" is standard input
    int fd;           // -1: all bytes are in `memory`
    uint64_t begin;   // of the bytes in the file: 0, unless they are a part of it
    uint8_t *memory;
    // Size at the time of opening, with appended bytes. A trace that is being written may grow
    // later.
    uint64_t bytes;
    uint64_t file_bytes; // without appended bytes
    uint8_t *added;      // appended bytes, in memory
    uint64_t added_at;   // offset of the first of them, not below file_bytes
};

// Opens a path, or standard input for "-". 0, or -1 with the error set.
int ct_source_open(struct ct_source *source, const char *path, struct ct_error *error);
// Gives bytes of an open file a name that can be opened like a path, and has no journal. Both must
// last; there is no way back. Names of files come second.
void ct_source_add_name(const char *name, int fd, uint64_t begin, uint64_t bytes);
int ct_source_is_named(const char *path);
// Opens a copy of bytes in memory.
void ct_source_open_memory(struct ct_source *source, const char *name, const void *bytes,
                           size_t size);
// Reads will be few and far apart: the system need not read ahead of them.
void ct_source_expect_seeks(struct ct_source *source);
// Appends bytes at the next multiple of `align`, in place of what was appended before. Takes them
// over (from malloc).
void ct_source_append(struct ct_source *source, void *bytes, size_t size, unsigned align);
// Copies up to n bytes from an offset. Returns how many: fewer at the end, or where the file cannot
// be read.
size_t ct_source_read(const struct ct_source *source, uint64_t offset, void *to, size_t n);
void ct_source_close(struct ct_source *source);

#endif
