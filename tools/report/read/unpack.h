// SPDX-License-Identifier: Apache-2.0
// Bodies of chunks, decompressed.
#ifndef CT_UNPACK_H
#define CT_UNPACK_H

#include <cutrace/format/bytes.h>

#include "read/index.h"

// Decompresses one body after the other. Several may work at the same time.
struct ct_unpacker {
    void *dctx; // ZSTD_DCtx
    uint8_t *packed, *body;
    size_t packed_room, body_room;
};

void ct_unpacker_begin(struct ct_unpacker *u);
void ct_unpacker_end(struct ct_unpacker *u);
// NULL, with the body, which is valid until the next call; or what is wrong with it.
const char *ct_unpacker_read(struct ct_unpacker *u, const struct ct_source *source,
                             const struct ct_index_chunk *c, struct ct_in *body);

#endif
