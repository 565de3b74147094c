// SPDX-License-Identifier: Apache-2.0
// The bytes of a trace, from a file or from standard input, at any offset.
#ifndef CT_SOURCE_H
#define CT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct ct_source {
    const char *name; // for messages; "-" is standard input
    int fd;           // -1 if all bytes are in memory
    uint8_t *memory;
    uint64_t bytes; // as found when it was opened: a trace that is being written may grow behind it
    uint64_t file_bytes; // of them in the file; what was added lies behind, in memory
    uint8_t *added;
    uint64_t added_at; // offset of the first byte of it, at or behind file_bytes
};

// Opens a path, or standard input for "-". 0, or -1 with the error set.
int ct_source_open(struct ct_source *source, const char *path, struct ct_error *error);
// A source over bytes that the caller keeps.
void ct_source_open_memory(struct ct_source *source, const char *name, const void *bytes, size_t size);
// Puts bytes (from malloc, taken over) behind the end, at a multiple of `align`.
void ct_source_append(struct ct_source *source, void *bytes, size_t size, unsigned align);
// Copies up to n bytes at an offset. Fewer come back at the end or where the file cannot be read.
size_t ct_source_read(const struct ct_source *source, uint64_t offset, void *to, size_t n);
void ct_source_close(struct ct_source *source);

#endif
