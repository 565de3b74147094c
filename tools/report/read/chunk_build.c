// SPDX-License-Identifier: Apache-2.0
// Encodes chunks. The same body always gives the same bytes.
#include "read/chunk_build.h"

#include <cutrace/format/assert.h>
#include <cutrace/format/bytes.h>
#include <string.h>
#include <zstd.h>

#include <cutrace/format/xxh64.h>

void ct_chunk_build_section(struct ct_buffer *body, unsigned kind, const void *bytes, size_t n) {
    CT_ASSERT(n <= UINT32_MAX);
    struct ct_out o = {ct_buffer_reserve(body, 16), NULL, 0};
    o.end = o.at + 16;
    uint8_t *length_at = ct_section_begin(&o, (enum ct_section)kind);
    for (int i = 0; i < 4; i++)
        length_at[i] = (uint8_t)(n >> (8 * i));
    body->n = (size_t)(o.at - body->at);
    ct_buffer_append(body, bytes, n);
}

void ct_chunk_build_append(struct ct_buffer *out, const struct ct_buffer *body,
                           struct ct_chunk head) {
    const size_t bound = ZSTD_compressBound(body->n);
    uint8_t *to = ct_buffer_reserve(out, CT_PREFIX_BYTES + bound + 16);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    if (!c)
        ct_heap_exhausted();
    (void)ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    const size_t packed = ZSTD_compress2(c, to + CT_PREFIX_BYTES, bound, body->at, body->n);
    ZSTD_freeCCtx(c);
    if (ZSTD_isError(packed))
        ct_heap_exhausted(); // nothing else can fail: the bound leaves enough room
    memcpy(head.magic, CT_CHUNK_MAGIC, sizeof head.magic);
    head.header_bytes = sizeof head;
    head.body_bytes = packed;
    head.raw_bytes = body->n;
    head.checksum = ct_xxh64(&head, offsetof(struct ct_chunk, checksum));
    const uint32_t frame[2] = {CT_PREFIX_MAGIC, sizeof head};
    const uint32_t fill[2] = {CT_FILLER_MAGIC, (uint32_t)(0 - packed) & (CT_CHUNK_ALIGN - 1)};
    memcpy(to, frame, 8);
    memcpy(to + 8, &head, sizeof head);
    memcpy(to + CT_PREFIX_BYTES + packed, fill, 8);
    memset(to + CT_PREFIX_BYTES + packed + 8, 0, fill[1]);
    out->n += CT_PREFIX_BYTES + packed + 8 + fill[1];
}
