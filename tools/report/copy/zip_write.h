// SPDX-License-Identifier: Apache-2.0
// A zip file whose entries are stored as they are: traces are compressed already, and a reader
// needs to unpack nothing. All dates are the first that zip knows, so that the same input gives the
// same bytes.
#ifndef CT_ZIP_WRITE_H
#define CT_ZIP_WRITE_H

#include "base/buffer.h"
#include "read/new_file.h"

struct ct_zip_writer {
    struct ct_new_file *file; // open
    struct ct_buffer directory;
    unsigned count;
};

// Bytes that an entry takes beside its own.
uint64_t ct_zip_writer_overhead(const char *name);
// Each returns 0, or -1 with the error in `file`.
int ct_zip_writer_add(struct ct_zip_writer *z, const char *name, const void *bytes, size_t n);
int ct_zip_writer_add_source(struct ct_zip_writer *z, const char *name,
                             const struct ct_source *source);
int ct_zip_writer_end(struct ct_zip_writer *z);

#endif
