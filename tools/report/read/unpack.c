// SPDX-License-Identifier: Apache-2.0
#include "read/unpack.h"

#include <zstd.h>

#include "base/heap.h"

void ct_unpacker_begin(struct ct_unpacker *u) {
    *u = (struct ct_unpacker){.dctx = ZSTD_createDCtx()};
    if (!u->dctx)
        ct_heap_exhausted();
}

void ct_unpacker_end(struct ct_unpacker *u) {
    free(u->packed);
    free(u->body);
    ZSTD_freeDCtx(u->dctx);
    *u = (struct ct_unpacker){.dctx = NULL};
}

const char *ct_unpacker_read(struct ct_unpacker *u, const struct ct_source *source,
                             const struct ct_index_chunk *c, struct ct_in *body) {
    const uint64_t packed = c->head.body_bytes, raw = c->head.raw_bytes;
    if (packed > ZSTD_compressBound(CT_MAX_BODY) + 1024)
        return "chunk with impossible sizes";
    if (packed > u->packed_room)
        u->packed = ct_heap_resize(u->packed, u->packed_room = (size_t)packed, 1);
    if (ct_source_read(source, c->body, u->packed, (size_t)packed) != packed)
        return "bytes that cannot be read";
    // Decompress only a frame that says beforehand how large it will be.
    if (ZSTD_getFrameContentSize(u->packed, (size_t)packed) != raw)
        return "chunk whose body has another size than its prefix says";
    if (raw > u->body_room)
        u->body = ct_heap_resize(u->body, u->body_room = (size_t)raw, 1);
    if (ZSTD_decompressDCtx(u->dctx, u->body, (size_t)raw, u->packed, (size_t)packed) != raw)
        return "chunk with a damaged body";
    *body = (struct ct_in){u->body, u->body + raw, 0};
    return NULL;
}
