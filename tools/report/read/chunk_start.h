// SPDX-License-Identifier: Apache-2.0
// The first bytes of a chunk's body, without the rest of it.
#ifndef CT_CHUNK_START_H
#define CT_CHUNK_START_H

#include "read/index.h"

// Decompresses up to `want` bytes from the start of a body. Adds to *taken how many bytes of the
// file that took. Returns how many bytes there are in `to`: fewer where the body is damaged, which
// only reading all of it shows for certain.
size_t ct_chunk_start_read(const struct ct_source *source, const struct ct_index_chunk *chunk,
                           uint8_t *to, size_t want, uint64_t *taken);

#endif
