// SPDX-License-Identifier: Apache-2.0
// Builds chunks of a trace: sections into a body, a body into a chunk.
#ifndef CT_CHUNK_BUILD_H
#define CT_CHUNK_BUILD_H

#include <cutrace/format/bytes.h>
#include <stddef.h>

#include "base/buffer.h"

// Appends a section to a body.
void ct_chunk_build_section(struct ct_buffer *body, unsigned kind, const void *bytes, size_t n);
// Appends a whole chunk: prefix, compressed body, filler. Fills in the fields of the head that
// follow from the body.
void ct_chunk_build_append(struct ct_buffer *out, const struct ct_buffer *body,
                           struct ct_chunk head);

#endif
