// SPDX-License-Identifier: Apache-2.0
// Traces in a zip file, as `bundle` writes it. They are read where they lie, so only stored entries
// are read, and of these only those whose names end in .zst. Beside them the logs of a bundle,
// log-1.txt and log-2.txt, which alone are unpacked, to 16 MiB at most. A zip file is a stranger's:
// every length and offset is checked, traces may not overlap.
#ifndef CT_ZIP_READ_H
#define CT_ZIP_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum { CT_ZIP_TRACES = 4096, CT_ZIP_NAME = 128, CT_ZIP_LOGS = 2 };

struct ct_zip_entry {
    char name[CT_ZIP_NAME];                // letters, digits, '.', '_' and '-' only
    uint64_t header, begin, packed, bytes; // packed: in the file; the same of a trace
    uint32_t method, crc;
};

struct ct_zip {
    const char *path;
    int fd;
    struct ct_zip_entry *traces; // in the order of the directory
    size_t count, capacity;
    struct ct_zip_entry logs[CT_ZIP_LOGS]; // those without a name are not there
};

// Whether a path is that of a zip file.
int ct_zip_is(const char *path);
// Opens a zip file and lists its traces. 0, or -1 with an error that names the offset.
int ct_zip_open(struct ct_zip *zip, const char *path, struct ct_error *error);
// Appends the text of a log. 0, or -1 with an error, also where this program has no zlib.
int ct_zip_read_log(const struct ct_zip *zip, const struct ct_zip_entry *log, struct ct_buffer *to,
                    struct ct_error *error);
// Closes the file unless it is still read (`keep`).
void ct_zip_close(struct ct_zip *zip, int keep);

#endif
