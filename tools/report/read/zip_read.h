// SPDX-License-Identifier: Apache-2.0
// Traces in a zip file, as `bundle` writes it. They are read where they lie: nothing is unpacked,
// so only stored entries are read, and of these only those whose names end in .zst. A zip file is a
// stranger's: every length and offset is checked, entries may not overlap.
#ifndef CT_ZIP_READ_H
#define CT_ZIP_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { CT_ZIP_TRACES = 4096, CT_ZIP_NAME = 128 };

struct ct_zip_entry {
    char name[CT_ZIP_NAME]; // letters, digits, '.', '_' and '-' only
    uint64_t header, begin, bytes;
    uint32_t crc;
};

struct ct_zip {
    const char *path;
    int fd;
    struct ct_zip_entry *traces; // in the order of the directory
    size_t count, capacity;
};

// Whether a path is that of a zip file.
int ct_zip_is(const char *path);
// Opens a zip file and lists its traces. 0, or -1 with an error that names the offset.
int ct_zip_open(struct ct_zip *zip, const char *path, struct ct_error *error);
// Closes the file unless it is still read (`keep`).
void ct_zip_close(struct ct_zip *zip, int keep);

#endif
