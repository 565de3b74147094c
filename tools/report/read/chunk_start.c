// SPDX-License-Identifier: Apache-2.0
#include "read/chunk_start.h"

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "base/heap.h"

#define STEP 8192u    // bytes that are read at a time
#define WINDOW_LOG 23 // of the history that zstd keeps

size_t ct_chunk_start_read(const struct ct_source *source, const struct ct_index_chunk *chunk,
                           uint8_t *to, size_t want, uint64_t *taken) {
    uint8_t packed[STEP];
    ZSTD_outBuffer out = {to, want, 0};
    ZSTD_DCtx *const stream = ZSTD_createDCtx();
    if (!stream)
        ct_heap_exhausted();
    (void)ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, WINDOW_LOG);
    for (uint64_t at = 0; out.pos < want && at < chunk->head.body_bytes;) {
        const uint64_t left = chunk->head.body_bytes - at;
        const size_t n =
            ct_source_read(source, chunk->body + at, packed, left < STEP ? (size_t)left : STEP);
        ZSTD_inBuffer in = {packed, n, 0};
        at += n;
        *taken += n;
        size_t more = 1;
        for (size_t before = 1; more && !ZSTD_isError(more) && out.pos < want && before;) {
            before = in.pos + out.pos;
            more = ZSTD_decompressStream(stream, &out, &in);
            before = in.pos + out.pos - before;
        }
        if (!n || !more || ZSTD_isError(more))
            break;
    }
    ZSTD_freeDCtx(stream);
    return out.pos;
}
