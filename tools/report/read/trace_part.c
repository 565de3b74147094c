// SPDX-License-Identifier: Apache-2.0
#include "read/trace_part.h"

#include <cutrace/model/checkpoint.h>
#include <stdlib.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "base/heap.h"
#include "read/bounds.h"
#include "read/index.h"

// ---- headers ------------------------------------------------------------------------------------
// Which checkpoints restore the state is in the digests; names are at the start of bodies.

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

// ---- the part of a moment -----------------------------------------------------------------------

// The time of a chunk's first event in its prefix is exact, that of the record may be rounded down.
#define ROUNDING UINT64_C(1000000)

// After which number and time no event belongs to the part.
struct bound {
    uint64_t event, t_ns;
};

// ---- choosing -----------------------------------------------------------------------------------

// The first chunk whose events are all after the moment.
static size_t find_end(const struct ct_index *x, const struct bound *b) {
    for (size_t i = 0; i < x->count; i++) {
        const struct ct_chunk *h = &x->chunks[i].head;
        if (h->events && (h->first_event > b->event ||
                          (h->t_first_ns > b->t_ns && h->t_first_ns - b->t_ns > ROUNDING)))
            return i;
    }
    return x->count;
}

// Whether a checkpoint has its last part before the moment, and before the event that is the
// moment. Its first event comes before the moment, too: where chunks before it are missing or
// damaged, which nobody has read, it has what they did.
static int is_before(const struct ct_index *x, const struct ct_seek_point *p,
                     const struct bound *b) {
    if (p->event > b->event || ct_index_first_ns(x, p->first) > b->t_ns)
        return 0;
    for (size_t i = 0; i < p->last; i++)
        if (x->chunks[i].head.events && x->chunks[i].head.t_last_ns > b->t_ns)
            return 0;
    return 1;
}

// Where a replay of all chunks knows what is live: at once, if the trace has the start of the
// process, else after the first exact checkpoint. Returns 0 if it nowhere does.
static int find_start(const struct ct_trace *t, struct ct_seek_point *p) {
    const struct ct_index *x = &t->index;
    *p = (struct ct_seek_point){0};
    if (x->count && !x->chunks[0].gap && !x->chunks[0].head.first_event)
        return 1;
    for (size_t i = 0; i < x->count; i++) {
        const struct ct_index_chunk *c = &x->chunks[i];
        if (c->completes && !(c->checkpoint & CT_CHECKPOINT_INEXACT)) {
            *p = (struct ct_seek_point){0, i, c->head.first_event};
            return 1;
        }
    }
    return 0;
}

// Returns 0 if there is none.
static int find_begin(struct ct_trace_part *p, const struct ct_trace *t, const struct bound *b) {
    const struct ct_seek_points *s = &t->seek_points;
    for (size_t i = s->count; i-- > 0;)
        if (is_before(&t->index, &s->list[i], b)) {
            p->is_sought = 1;
            p->point = s->list[i];
            return 1;
        }
    return find_start(t, &p->point) && is_before(&t->index, &p->point, b);
}

static int has_gap(const struct ct_trace_part *p, const struct ct_index *x) {
    for (size_t i = p->begin + 1; i < p->end; i++)
        if (x->chunks[i].gap)
            return 1;
    return 0;
}

// Whether events that are not here may lie between the last one of the part and the moment.
static const char *check_end(const struct ct_trace_part *p, const struct ct_trace *t,
                             const struct bound *b) {
    const struct ct_index *x = &t->index;
    if (b->event != UINT64_MAX || b->t_ns <= ct_index_last_ns(x, p->end - 1))
        return NULL;
    if (p->end < x->count)
        return x->chunks[p->end].gap ? "chunks are missing right before it" : NULL;
    return t->incomplete ? "the trace has no clean end, and its journal was not read" : NULL;
}

void ct_trace_part_choose(struct ct_trace_part *p, const struct ct_trace *t, uint64_t event,
                          uint64_t t_ns, int is_end) {
    const struct ct_index *x = &t->index;
    const struct bound b = {event, t_ns};
    *p = (struct ct_trace_part){0};
    p->end = find_end(x, &b);
    if (!p->end)
        p->unknown = "it is before the first event of the trace";
    else if (!find_begin(p, t, &b))
        p->unknown = "no whole checkpoint lies before it";
    if (p->unknown)
        return;
    p->begin = p->point.first;
    if (p->end <= p->point.last)
        p->end = p->point.last + 1;
    if (has_gap(p, x))
        p->unknown = "chunks are missing before it";
    else if (!is_end)
        p->unknown = check_end(p, t, &b);
}

// ---- reading ------------------------------------------------------------------------------------

static void add_digest(struct ct_trace_part *p, size_t chunk, const struct ct_digest *d) {
    p->failed_frees += d->failed_frees;
    p->lost += chunk < p->end ? d->lost : 0;
}

// Whether a chunk may say of a free of the part that it has failed.
static int may_correct(const struct ct_trace_part *p, size_t chunk, const struct ct_index_chunk *c,
                       const struct ct_digest *d) {
    return chunk >= p->end && c->head.flags & CT_CHUNK_AMENDS && (!d || d->failed_frees);
}

// Marks the chunks that may correct events of the part. Returns whether there are any.
static int look_for_amends(struct ct_trace_part *p, const struct ct_trace *t, char *corrects) {
    struct ct_digest *d = ct_heap_resize(NULL, 1, sizeof *d);
    int any = 0;
    for (size_t i = 0; i < t->index.count; i++) {
        const struct ct_index_chunk *c = &t->index.chunks[i];
        struct ct_digest_body body;
        const char *what;
        const int has = ct_digest_read(&t->source, c, d, &body, &what) > 0;
        if (has)
            add_digest(p, i, d);
        corrects[i] = (char)may_correct(p, i, c, has ? d : NULL);
        any |= corrects[i];
    }
    free(d);
    return any;
}

// An AMEND names a thread, of which the dictionaries before it tell.
static void read_amends(struct ct_trace_part *p, struct ct_trace *t,
                        const struct ct_header_names *names, size_t chunk) {
    const struct ct_index_chunk *c = &t->index.chunks[chunk];
    ct_trace_open_chunk(t, chunk);
    p->unread_amends += c->bad || c->partial || !names->is_whole;
}

void ct_trace_part_read(struct ct_trace_part *p, struct ct_trace *t) {
    const struct ct_index_chunk *chunks = t->index.chunks;
    struct ct_header_names names = {.from = chunks[p->begin].head.dict_seq,
                                    .to = chunks[p->end - 1].head.dict_seq + 1};
    char *corrects = ct_heap_alloc_zeroed(t->index.count, 1);
    if (look_for_amends(p, t, corrects))
        names.left = ct_trace_headers_begin_names(t).left;
    ct_trace_begin_bodies(t);
    ct_trace_rewind(t);
    for (size_t i = 0; i < t->index.count; i++) {
        if (i >= p->begin && i < p->end) {
            ct_trace_open_chunk(t, i);
            names.is_whole = 1; // (it has its dictionaries)
            continue;
        }
        ct_trace_headers_define(t, &names, i);
        if (corrects[i])
            read_amends(p, t, &names, i);
    }
    free(corrects);
    ct_amends_sort(&t->amends);
    ct_trace_headers_end_names(t);
    t->end = p->end;
    if (!p->unknown && !ct_trace_part_is_whole(p, t))
        p->unknown = "a chunk before it is damaged";
}

int ct_trace_part_is_whole(const struct ct_trace_part *p, const struct ct_trace *t) {
    for (size_t i = p->begin; i < p->end; i++)
        if (t->index.chunks[i].bad || t->index.chunks[i].partial)
            return 0;
    return 1;
}
