// SPDX-License-Identifier: Apache-2.0
// Which checkpoints restore the state is in the digests; names are at the start of bodies.
#include "read/trace_headers.h"

#include <stdlib.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "base/heap.h"
#include "read/bounds.h"
#include "read/digest.h"

#define STEP 8192u    // bytes of a body that are read at a time
#define WINDOW_LOG 23 // of the history that zstd keeps
enum {
    SHARE = 40,                 // of the file, which names may cost
    LEAST = 256 << 10,          // bytes of it at least
    MOST_DEFINITIONS = 4 << 20, // of one chunk
    MOST_FACTS = 64 << 10,      // of a chunk without a digest, in which only its INFO is looked for
};

// Sets what a body would show of its checkpoint.
static void read_checkpoints(struct ct_trace *t, struct ct_digest *digest) {
    for (size_t i = 0; i < t->index.count; i++) {
        struct ct_index_chunk *c = &t->index.chunks[i];
        struct ct_digest_body body;
        const char *what;
        const int found = ct_digest_read(&t->source, c, digest, &body, &what);
        if (found > 0) {
            c->has_checkpoint = body.has_checkpoint;
            c->checkpoint = body.checkpoint;
        }
    }
}

static int open_index(struct ct_index *x, struct ct_source *source, const char *path,
                      struct ct_error *error) {
    if (ct_source_open(source, path, error))
        return -1;
    ct_source_expect_seeks(source);
    ct_index_scan(x, source, 0, source->bytes);
    return ct_index_sort(x, source, error);
}

int ct_trace_headers_open(struct ct_trace *t, const char *path, struct ct_error *error) {
    *t = (struct ct_trace){.no_journal = 1, .journal.file.fd = -1};
    ct_definitions_init(&t->definitions);
    if (open_index(&t->index, &t->source, path, error))
        return -1;
    t->definitions.most_bytes = ct_bounds_definition_bytes(t->source.bytes);
    struct ct_digest *digest = ct_heap_resize(NULL, 1, sizeof *digest);
    read_checkpoints(t, digest);
    free(digest);
    ct_trace_summarize_chunks(t);
    return 0;
}

struct ct_header_names ct_trace_headers_begin_names(const struct ct_trace *t) {
    const uint64_t share = t->source.bytes / SHARE;
    return (struct ct_header_names){.left = share > LEAST ? share : LEAST};
}

// The chunks whose names come first: where the process began, and where the last dictionaries do;
// and the end, where the last counters are.
static int is_wanted(const struct ct_trace *t, const struct ct_header_names *names, size_t chunk) {
    const struct ct_index *x = &t->index;
    const uint64_t generation = x->chunks[chunk].head.dict_seq;
    if (generation >= names->from && generation < names->to)
        return 1;
    return !chunk || chunk == x->count - 1 ||
           x->chunks[chunk].head.seq == x->chunks[x->count - 1].head.dict_seq;
}

// The facts (INFO) at the start of a body that may be cut.
static void define_facts(struct ct_trace *t, const struct ct_index_chunk *c, struct ct_in body) {
    struct ct_in section;
    unsigned kind;
    while (ct_section_next(&body, &kind, &section) > 0 && kind == CT_SECTION_INFO)
        (void)ct_definitions_read_section(&t->definitions, c->head.version, kind, section);
}

// Decompresses up to `want` bytes from the start of a body. Adds to *taken how many bytes of the
// file that took. Returns how many bytes there are in `to`: fewer where the body is damaged, which
// only reading all of it shows for certain.
static size_t read_start(const struct ct_source *source, const struct ct_index_chunk *chunk,
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

// Reads the definitions in the first bytes of a body. Returns whether these are all.
static int define(struct ct_trace *t, struct ct_header_names *names, const struct ct_index_chunk *c,
                  uint64_t bytes, int has_digest) {
    uint64_t taken = 0;
    uint8_t *start = ct_heap_resize(NULL, bytes + 1, 1);
    const size_t got = read_start(&t->source, c, start, bytes, &taken);
    const struct ct_in body = {start, start + got, 0};
    int is_whole = 0;
    if (has_digest && got == bytes)
        is_whole = !ct_trace_define(t, c, body);
    else
        define_facts(t, c, body);
    free(start);
    names->left -= taken < names->left ? taken : names->left;
    return is_whole;
}

void ct_trace_headers_define(struct ct_trace *t, struct ct_header_names *names, size_t chunk) {
    const struct ct_index_chunk *c = &t->index.chunks[chunk];
    struct ct_digest *digest = ct_heap_resize(NULL, 1, sizeof *digest);
    struct ct_digest_body body = {.definition_bytes = 0};
    const char *what;
    const int has = ct_digest_read(&t->source, c, digest, &body, &what) > 0;
    free(digest);
    if (c->head.dict_seq != t->definitions.generation || c->head.seq == c->head.dict_seq) {
        ct_definitions_set_generation(&t->definitions, c->head.dict_seq);
        names->is_whole = c->head.seq == c->head.dict_seq;
    } else if (c->gap) {
        names->is_whole = 0;
    }
    uint64_t bytes = has ? body.definition_bytes : c->head.raw_bytes;
    if (!has && bytes > MOST_FACTS)
        bytes = MOST_FACTS;
    if (!bytes)
        return;
    if (bytes > MOST_DEFINITIONS || (!is_wanted(t, names, chunk) && (!has || !names->left)))
        names->is_whole = 0;
    else
        names->is_whole &= define(t, names, c, bytes, has);
}

void ct_trace_headers_read_facts(struct ct_trace *t) {
    struct ct_header_names names = {.left = 0};
    for (size_t i = 0; i < t->index.count; i++)
        ct_trace_headers_define(t, &names, i);
    ct_trace_summarize_facts(t);
}

void ct_trace_headers_end_names(struct ct_trace *t) {
    ct_definitions_finish(&t->definitions);
    ct_trace_summarize_facts(t);
}
