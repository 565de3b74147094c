// SPDX-License-Identifier: Apache-2.0
// Encodes a chunk in its form in the file: prefix, zstd frame, digest, filler.
#include "store/chunk_encode.h"

#include <errno.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <cutrace/format/assert.h>
#include <cutrace/format/format.h>
#include <cutrace/format/xxh64.h>

#include "base/pages.h"

static void put32(uint8_t *at, uint32_t v) {
    memcpy(at, &v, 4);
}

#define FILLER_BYTES (8u + CT_CHUNK_ALIGN)

size_t ct_chunk_encode_bound(size_t raw_bytes) {
    // Each cut can add a block header.
    return CT_PREFIX_BYTES + ZSTD_compressBound(raw_bytes) + 4 * 64 + raw_bytes / CT_CUT_BYTES * 4 +
           CT_CHUNK_DIGEST_BYTES + FILLER_BYTES;
}

// The compressor finds matches no further back than this. A column is seldom longer.
#define WINDOW_LOG 17
// The hash table of the fast levels fits into the first-level cache. A column repeats itself soon
// or not at all.
#define FAST_HASH_LOG 12

static struct {
    ZSTD_CCtx *cctx;
    int level;
    ZSTD_outBuffer out;
    uint8_t *start;
    size_t n;      // bytes of the chunk, once its body has ended
    uint64_t put;  // bytes of the body so far
    uint64_t cut;  // of them, those before the open block
    int is_failed; // zstd has failed
} c;

// In memory of our own, because zstd would allocate from the host's heap.
static ZSTD_CCtx *get_compressor(int level) {
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
        // A static context is zeroed and lacks the defaults, for example the content size in the
        // header.
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
    if (!get_compressor(level))
        return -ENOMEM;
    (void)ZSTD_CCtx_reset(c.cctx, ZSTD_reset_session_only);
    c.is_failed = ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(c.cctx, raw_bytes)) != 0;
    c.start = out;
    c.out = (ZSTD_outBuffer){out, room - CT_CHUNK_DIGEST_BYTES - FILLER_BYTES, CT_PREFIX_BYTES};
    c.n = 0;
    c.put = c.cut = 0;
    return 0;
}

static void compress_part(const void *bytes, size_t n, ZSTD_EndDirective end) {
    ZSTD_inBuffer in = {bytes, n, 0};
    const size_t left = c.is_failed ? 0 : ZSTD_compressStream2(c.cctx, &c.out, &in, end);
    c.is_failed |= ZSTD_isError(left) || in.pos != n || (end != ZSTD_e_continue && left);
}

void ct_chunk_encode_put(const void *bytes, size_t n) {
    c.put += n;
    compress_part(bytes, n, ZSTD_e_continue);
}

void ct_chunk_encode_cut(void) {
    if (c.put - c.cut < CT_CUT_BYTES)
        return;
    c.cut = c.put;
    compress_part(NULL, 0, ZSTD_e_flush);
}

void ct_chunk_encode_prefix(struct ct_chunk *head, uint8_t out[CT_PREFIX_BYTES]) {
    put32(out, CT_PREFIX_MAGIC);
    put32(out + 4, sizeof *head);
    head->checksum = ct_xxh64(head, offsetof(struct ct_chunk, checksum));
    memcpy(out + 8, head, sizeof *head);
}

int ct_chunk_encode_end_body(struct ct_chunk *head) {
    compress_part(NULL, 0, ZSTD_e_end);
    if (c.is_failed)
        return -1;
    memcpy(head->magic, CT_CHUNK_MAGIC, sizeof head->magic);
    head->version = CT_FORMAT_VERSION;
    head->header_bytes = sizeof *head;
    head->reserved = 0;
    head->body_bytes = c.out.pos - CT_PREFIX_BYTES;
    head->raw_bytes = c.put;
    ct_chunk_encode_prefix(head, c.start);
    c.n = c.out.pos;
    return 0;
}

uint8_t *ct_chunk_encode_digest_place(void) {
    CT_ASSERT(c.n == c.out.pos); // the body has ended
    return c.start + c.n;
}

void ct_chunk_encode_add_digest(size_t n) {
    CT_ASSERT(c.n == c.out.pos && n <= CT_CHUNK_DIGEST_BYTES);
    c.n += n;
}

size_t ct_chunk_encode_end(void) {
    uint8_t *filler = c.start + c.n;
    const size_t fill = (0 - c.n) & (CT_CHUNK_ALIGN - 1);
    put32(filler, CT_FILLER_MAGIC);
    put32(filler + 4, (uint32_t)fill);
    memset(filler + 8, 0, fill);
    CT_ASSERT((c.n + 8 + fill) % CT_CHUNK_ALIGN == 0);
    return c.n + 8 + fill;
}
