// SPDX-License-Identifier: Apache-2.0
// From a body to a chunk as it stands in the file: prefix, zstd frame, filler.
#include "chunk.h"

#include <stdatomic.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "memory.h"

// ---- XXH64, seed 0 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md) ------------

#define P1 UINT64_C(0x9E3779B185EBCA87)
#define P2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define P3 UINT64_C(0x165667B19E3779F9)
#define P4 UINT64_C(0x85EBCA77C2B2AE63)
#define P5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t rotate(uint64_t v, unsigned by) {
    return v << by | v >> (64 - by);
}

static uint64_t word(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static uint64_t xxh_round(uint64_t lane, uint64_t input) {
    return rotate(lane + input * P2, 31) * P1;
}

uint64_t ct_xxh64(const void *data, size_t n) {
    const uint8_t *p = data, *const end = p + n;
    uint64_t h = P5;
    if (n >= 32) {
        uint64_t lane[4] = {P1 + P2, P2, 0, 0 - P1};
        for (; end - p >= 32; p += 32)
            for (int i = 0; i < 4; i++)
                lane[i] = xxh_round(lane[i], word(p + 8 * i));
        h = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
        for (int i = 0; i < 4; i++)
            h = (h ^ xxh_round(0, lane[i])) * P1 + P4;
    }
    h += n;
    for (; end - p >= 8; p += 8)
        h = rotate(h ^ xxh_round(0, word(p)), 27) * P1 + P4;
    if (end - p >= 4) {
        uint32_t v;
        memcpy(&v, p, 4);
        h = rotate(h ^ v * P1, 23) * P2 + P3;
        p += 4;
    }
    for (; p < end; p++)
        h = rotate(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

// ---- chunks ---------------------------------------------------------------------------------

static void put32(uint8_t *at, uint32_t v) {
    memcpy(at, &v, 4);
}

size_t ct_chunk_bound(size_t raw_bytes) {
    return CT_PREFIX_BYTES + ZSTD_compressBound(raw_bytes) + 16;
}

// A compressor in memory of our own: zstd's would come from the host's heap.
static ZSTD_CCtx *compressor(int level) {
    static ZSTD_CCtx *kept;
    static int kept_level;
    static void *workspace;
    static size_t bytes;
    if (kept && kept_level == level)
        return kept;
    ct_pages_free(workspace, bytes);
    bytes = ZSTD_estimateCCtxSize(level);
    workspace = ct_pages(bytes);
    kept = workspace ? ZSTD_initStaticCCtx(workspace, bytes) : NULL;
    kept_level = level;
    if (kept) {
        // A static context begins with zeros, not with the defaults (among them: content size in
        // the header).
        (void)ZSTD_CCtx_reset(kept, ZSTD_reset_session_and_parameters);
        (void)ZSTD_CCtx_setParameter(kept, ZSTD_c_compressionLevel, level);
        (void)ZSTD_CCtx_setParameter(kept, ZSTD_c_checksumFlag, 1);
    }
    return kept;
}

void ct_chunk_prefix(struct ct_chunk *head, uint8_t out[CT_PREFIX_BYTES]) {
    put32(out, CT_PREFIX_MAGIC);
    put32(out + 4, sizeof *head);
    head->checksum = ct_xxh64(head, offsetof(struct ct_chunk, checksum));
    memcpy(out + 8, head, sizeof *head);
}

size_t ct_chunk_build(struct ct_chunk *head, const void *raw, size_t raw_bytes, int level,
                      uint8_t *out) {
    ZSTD_CCtx *cctx = compressor(level);
    if (!cctx)
        return 0;
    uint8_t *body = out + CT_PREFIX_BYTES;
    const size_t n = ZSTD_compress2(cctx, body, ZSTD_compressBound(raw_bytes), raw, raw_bytes);
    if (ZSTD_isError(n))
        return 0;
    memcpy(head->magic, CT_CHUNK_MAGIC, sizeof head->magic);
    head->version = CT_FORMAT_VERSION;
    head->header_bytes = sizeof *head;
    head->reserved = 0;
    head->body_bytes = n;
    head->raw_bytes = raw_bytes;
    ct_chunk_prefix(head, out);
    const size_t fill = (0 - n) & (CT_CHUNK_ALIGN - 1);
    put32(body + n, CT_FILLER_MAGIC);
    put32(body + n + 4, (uint32_t)fill);
    memset(body + n + 8, 0, fill);
    return CT_PREFIX_BYTES + n + 8 + fill;
}
