// SPDX-License-Identifier: Apache-2.0
// A zip file. Traces are stored as they are: they are compressed already, and the reader needs to
// unpack nothing. Texts are deflated. All dates are the first that zip knows, so that the same
// input gives the same bytes.
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
// Deflates a text. It stays empty where that would not be smaller, and without zlib. The caller
// frees `to->at`.
void ct_zip_deflate(const void *bytes, size_t n, struct ct_buffer *to);
// Each returns 0, or -1 with the error in `file`. `deflated`: by the function above.
int ct_zip_writer_add(struct ct_zip_writer *z, const char *name, const void *bytes, size_t n,
                      const struct ct_buffer *deflated);
int ct_zip_writer_add_source(struct ct_zip_writer *z, const char *name,
                             const struct ct_source *source);
int ct_zip_writer_end(struct ct_zip_writer *z);

#endif
