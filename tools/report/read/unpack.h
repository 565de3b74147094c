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

// The bodies of all chunks of a trace, decompressed side by side and handed on one after the other.

struct ct_unpacked {
    int is_left;        // to the caller, because it is large, or because one thread does all
    const char *damage; // else: what is wrong with it, or NULL
    struct ct_in body;
};

// Calls `take` for each chunk in the order of the index, from one thread at a time. It may change
// the index, except its list of chunks and their prefixes.
void ct_unpack_in_order(const struct ct_source *source, const struct ct_index *index,
                        void (*take)(void *user, size_t chunk, const struct ct_unpacked *u),
                        void *user);

#endif
