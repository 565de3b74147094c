// SPDX-License-Identifier: Apache-2.0
// From the pieces of a body to a chunk as it stands in the file: prefix, zstd frame, filler.
#include "store/chunk_encode.h"

#include <errno.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <cutrace/format/codec.h>

#include "base/pages.h"

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

#define FILLER_BYTES (8u + CT_CHUNK_ALIGN)

size_t ct_chunk_encode_bound(size_t raw_bytes) {
    // Each cut may cost a block header more.
    return CT_PREFIX_BYTES + ZSTD_compressBound(raw_bytes) + 4 * 64 + raw_bytes / CT_CUT_BYTES * 4 +
           FILLER_BYTES;
}

// Of what lies further back than this, nothing is used: the compressor keeps that much. A column seldom has more.
#define WINDOW_LOG 17
// The table of the fast levels: a column repeats itself soon or not at all, and this leaves room in the nearest cache.
#define FAST_HASH_LOG 12

static struct {
    ZSTD_CCtx *cctx;
    int level;
    ZSTD_outBuffer out;
    uint8_t *start;
    uint64_t put, cut; // bytes of the body; of them, those before the block that is being filled
    int bad;
} c;

// In memory of our own: zstd's would come from the host's heap.
static ZSTD_CCtx *compressor(int level) {
    static void *workspace;
    static size_t bytes;
    if (c.cctx && c.level == level)
        return c.cctx;
    ct_pages_unmap(workspace, bytes);
    bytes = ZSTD_estimateCStreamSize(level);
    workspace = ct_pages_map(bytes);
    c.cctx = workspace ? ZSTD_initStaticCCtx(workspace, bytes) : NULL;
    c.level = level;
    if (c.cctx) {
        // A static context begins with zeros, not with the defaults (among them: content size in
        // the header).
        (void)ZSTD_CCtx_reset(c.cctx, ZSTD_reset_session_and_parameters);
        (void)ZSTD_CCtx_setParameter(c.cctx, ZSTD_c_compressionLevel, level);
        (void)ZSTD_CCtx_setParameter(c.cctx, ZSTD_c_windowLog, WINDOW_LOG);
        if (level <= 1)
            (void)ZSTD_CCtx_setParameter(c.cctx, ZSTD_c_hashLog, FAST_HASH_LOG);
        (void)ZSTD_CCtx_setParameter(c.cctx, ZSTD_c_checksumFlag, 1);
    }
    return c.cctx;
}

int ct_chunk_encode_begin(uint64_t raw_bytes, int level, uint8_t *out, size_t room) {
    if (!compressor(level))
        return -ENOMEM;
    (void)ZSTD_CCtx_reset(c.cctx, ZSTD_reset_session_only);
    c.bad = ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(c.cctx, raw_bytes)) != 0;
    c.start = out;
    c.out = (ZSTD_outBuffer){out, room - FILLER_BYTES, CT_PREFIX_BYTES};
    c.put = c.cut = 0;
    return 0;
}

static void compress(const void *bytes, size_t n, ZSTD_EndDirective end) {
    ZSTD_inBuffer in = {bytes, n, 0};
    const size_t left = c.bad ? 0 : ZSTD_compressStream2(c.cctx, &c.out, &in, end);
    c.bad |= ZSTD_isError(left) || in.pos != n || (end != ZSTD_e_continue && left); // (no room)
}

void ct_chunk_put(const void *bytes, size_t n) {
    c.put += n;
    compress(bytes, n, ZSTD_e_continue);
}

void ct_chunk_encode_cut(void) {
    if (c.put - c.cut < CT_CUT_BYTES)
        return;
    c.cut = c.put;
    compress(NULL, 0, ZSTD_e_flush);
}

void ct_chunk_encode_prefix(struct ct_chunk *head, uint8_t out[CT_PREFIX_BYTES]) {
    put32(out, CT_PREFIX_MAGIC);
    put32(out + 4, sizeof *head);
    head->checksum = ct_xxh64(head, offsetof(struct ct_chunk, checksum));
    memcpy(out + 8, head, sizeof *head);
}

size_t ct_chunk_encode_end(struct ct_chunk *head) {
    compress(NULL, 0, ZSTD_e_end);
    if (c.bad)
        return 0;
    memcpy(head->magic, CT_CHUNK_MAGIC, sizeof head->magic);
    head->version = CT_FORMAT_VERSION;
    head->header_bytes = sizeof *head;
    head->reserved = 0;
    head->body_bytes = c.out.pos - CT_PREFIX_BYTES;
    head->raw_bytes = c.put;
    ct_chunk_encode_prefix(head, c.start);
    uint8_t *filler = c.start + c.out.pos;
    const size_t fill = (0 - c.out.pos) & (CT_CHUNK_ALIGN - 1);
    put32(filler, CT_FILLER_MAGIC);
    put32(filler + 4, (uint32_t)fill);
    memset(filler + 8, 0, fill);
    return c.out.pos + 8 + fill;
}
