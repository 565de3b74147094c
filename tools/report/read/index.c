// SPDX-License-Identifier: Apache-2.0
// Finds chunks frame by frame. After damage it searches for the next valid prefix. Nothing in a
// prefix is used before its checksum matches.
#include "read/index.h"

#include <cutrace/format/journal.h>
#include <cutrace/format/xxh64.h>
#include <cutrace/model/checkpoint.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/search.h"

// FOUND_FRAME: a skippable frame of zstd that is no chunk: free space, filler, a digest. FOUND_CUT:
// the bytes end inside a frame.
enum found { FOUND_CHUNK, FOUND_FRAME, FOUND_CUT, FOUND_DAMAGE };

#define DIGEST_MOST 65536u // bytes of a digest, also of a later version

struct scan {
    struct ct_index *index;
    const struct ct_source *source;
    uint64_t end; // of the bytes to scan
    // A digest may be here, after the body of the last chunk in the index; UINT64_MAX: nowhere.
    uint64_t digest_at;
};

static uint32_t le32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

void ct_index_add_damage(struct ct_index *x, uint64_t offset, uint64_t bytes, const char *what) {
    CT_HEAP_GROW(x->damage, x->damages, x->damage_capacity);
    x->damage[x->damages++] = (struct ct_damage){offset, bytes, what};
}

static int prefix_valid(struct scan *w, uint64_t at, const uint8_t *prefix) {
    struct ct_chunk head;
    const uint32_t length = le32(prefix + 4);
    if (le32(prefix) != CT_PREFIX_MAGIC || length < sizeof head || length > 65536 ||
        memcmp(prefix + 8, CT_CHUNK_MAGIC, 8) != 0)
        return 0;
    memcpy(&head, prefix + 8, sizeof head);
    const int fits = head.checksum == ct_xxh64(&head, offsetof(struct ct_chunk, checksum));
    if (head.version > CT_FORMAT_VERSION) {
        uint16_t *newest = fits ? &w->index->newest : &w->index->suspicious;
        if (head.version > *newest) {
            *newest = head.version;
            w->index->newest_at = at;
        }
        return 0;
    }
    return fits && head.version > 0 && head.header_bytes >= sizeof head &&
           head.header_bytes <= length;
}

// Adds the chunk whose valid prefix is at an offset, and moves the offset past its body.
static enum found add_chunk(struct scan *w, uint64_t *at, const uint8_t *prefix) {
    struct ct_index *x = w->index;
    struct ct_index_chunk c = {.offset = *at};
    memcpy(&c.head, prefix + 8, sizeof c.head);
    c.body = *at + 8 + le32(prefix + 4);
    if (c.body > w->end || c.head.body_bytes > w->end - c.body)
        return FOUND_CUT;
    *at = c.body + c.head.body_bytes;
    if (c.head.raw_bytes > CT_MAX_BODY || c.head.dict_seq > c.head.seq ||
        c.head.events > CT_MAX_EVENTS || c.head.flags & CT_CHUNK_REQUIRED) {
        ct_index_add_damage(x, c.offset, *at - c.offset,
                            c.head.flags & CT_CHUNK_REQUIRED ? "chunk with an unknown feature"
                                                             : "chunk with impossible sizes");
        return FOUND_CHUNK;
    }
    CT_HEAP_GROW(x->chunks, x->count, x->capacity);
    x->chunks[x->count++] = c;
    w->digest_at = *at;
    return FOUND_CHUNK;
}

// Reads the frame at an offset, and moves the offset past it unless it is damaged or cut.
static enum found scan_frame(struct scan *w, uint64_t *at) {
    uint8_t prefix[CT_PREFIX_BYTES];
    const size_t got = ct_source_read(w->source, *at, prefix, sizeof prefix);
    if (got < 8)
        return FOUND_CUT;
    if (got == sizeof prefix && prefix_valid(w, *at, prefix))
        return add_chunk(w, at, prefix);
    const uint32_t magic = le32(prefix), length = le32(prefix + 4);
    if ((magic & CT_SKIPPABLE_MASK) != CT_SKIPPABLE_MAGIC || magic == CT_PREFIX_MAGIC) {
        const int begun = magic == CT_PREFIX_MAGIC && got < sizeof prefix;
        return begun ? FOUND_CUT : FOUND_DAMAGE;
    }
    if (magic == CT_FILLER_MAGIC && length > 7)
        return FOUND_DAMAGE;
    if (length > w->end - *at - 8)
        return FOUND_CUT;
    if (magic == CT_DIGEST_MAGIC && *at == w->digest_at && length < DIGEST_MOST)
        w->index->chunks[w->index->count - 1].digest_bytes = 8 + length;
    *at += 8 + (uint64_t)length;
    return FOUND_FRAME;
}

// Returns the offset of the first valid prefix from `from` on, or the end. Starts with small reads,
// because in a file with damage everywhere the next chunk is near.
static uint64_t find_prefix(struct scan *w, uint64_t from) {
    enum { BLOCK = 1 << 16 };
    uint8_t block[BLOCK + CT_PREFIX_BYTES];
    const uint64_t end = w->end;
    uint64_t at = (from + CT_CHUNK_ALIGN - 1) & ~(uint64_t)(CT_CHUNK_ALIGN - 1);
    for (size_t size = 512; at < end; at += size, size = size < BLOCK ? size * 2 : BLOCK) {
        const size_t got = ct_source_read(w->source, at, block, size + CT_PREFIX_BYTES);
        if (got == 0)
            break; // unreadable: the rest is lost
        for (size_t i = 0; i < size && i + CT_PREFIX_BYTES <= got; i += CT_CHUNK_ALIGN)
            if (memcmp(block + i + 8, CT_CHUNK_MAGIC, 8) == 0 && prefix_valid(w, at + i, block + i))
                return at + i;
    }
    return end;
}

void ct_index_scan(struct ct_index *x, const struct ct_source *source, uint64_t from, uint64_t to) {
    struct scan scan = {.index = x, .source = source, .end = to, .digest_at = UINT64_MAX};
    struct scan *w = &scan;
    for (uint64_t at = from; at < to;) {
        const uint64_t before = at;
        const enum found found = scan_frame(w, &at);
        if (found == FOUND_CHUNK || found == FOUND_FRAME)
            continue;
        at = find_prefix(w, before + CT_CHUNK_ALIGN);
        if (found == FOUND_CUT && at == to) {
            x->cut = 1;
            x->cut_at = before;
        }
        ct_index_add_damage(x, before, at - before,
                            at == to && found == FOUND_CUT ? "the file ends inside a chunk"
                                                           : "bytes that are no chunk");
    }
}

// Of chunks with the same number the one that counts comes first: the complete one, else the newest
// provisional one, which is the longest.
static int compare_seq(const void *a, const void *b) {
    const struct ct_index_chunk *x = a, *y = b;
    const uint32_t x_provisional = x->head.flags & CT_CHUNK_PROVISIONAL,
                   y_provisional = y->head.flags & CT_CHUNK_PROVISIONAL;
    if (x->head.seq != y->head.seq)
        return x->head.seq < y->head.seq ? -1 : 1;
    if (x_provisional != y_provisional)
        return x_provisional < y_provisional ? -1 : 1;
    if (x_provisional && x->head.raw_bytes != y->head.raw_bytes)
        return x->head.raw_bytes > y->head.raw_bytes ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Whether a chunk is there because a process was killed while it replaced it by `other`.
static int is_replaced(const struct ct_chunk *c, const struct ct_chunk *other) {
    return c->flags & CT_CHUNK_PROVISIONAL || memcmp(c, other, sizeof *c) == 0;
}

static int compare_id(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void ct_index_forgive_cut(struct ct_index *x) {
    if (x->cut && x->damages && x->damage[x->damages - 1].offset == x->cut_at)
        x->damages--;
    x->cut_replaced = x->cut;
    x->cut = 0;
}

// The trace at the beginning of the file, else the one with the most chunks.
uint64_t ct_index_trace_id(const struct ct_index *x) {
    if (x->chunks[0].offset == 0)
        return x->chunks[0].head.trace_id;
    uint64_t *ids = ct_heap_resize(NULL, x->count, sizeof *ids), best = 0;
    for (size_t i = 0; i < x->count; i++)
        ids[i] = x->chunks[i].head.trace_id;
    qsort(ids, x->count, sizeof *ids, compare_id);
    for (size_t i = 0, most = 0, run = 0; i < x->count; i++) {
        run = i && ids[i] == ids[i - 1] ? run + 1 : 1;
        if (run > most) {
            most = run;
            best = ids[i];
        }
    }
    free(ids);
    return best;
}

// ---- ring files -------------------------------------------------------------------------------

// Whether one of the first n chunks has this seq. They are sorted.
static int has_seq(const struct ct_index *x, size_t n, uint64_t seq) {
    const size_t at = CT_COUNT_BELOW(x->chunks, n, head.seq, seq);
    return at < n && x->chunks[at].head.seq == seq;
}

// A generation is a run of chunks that share dictionaries. It can be read without the chunks before
// it.
static int begins_generation(const struct ct_chunk *c) {
    return c->flags & CT_CHUNK_RESTART && c->dict_seq == c->seq;
}

static int is_contiguous(const struct ct_index *x, size_t i) {
    return x->chunks[i].head.seq == (i ? x->chunks[i - 1].head.seq + 1 : 0);
}

// A ring file overwrites its oldest chunks, so a generation may have lost its first ones. Returns
// where such a remnant, which begins with the contiguous run of chunks at `from`, ends; `from` if
// it is none. Not a remnant is
// - a run with dictionaries of its own: a copy of a damaged trace has them after a gap;
// - in a file that has not wrapped: a run whose dictionaries are in the file, in the run or before
// the gap. Damage made the gap;
// - in a file that has wrapped: the last run, if the start of its generation was retained for a
// failed allocation.
static size_t find_remnant_end(const struct ct_index *x, size_t kept, size_t from) {
    const uint64_t first = x->chunks[from].head.seq;
    size_t to = from, own = 0;
    do {
        const struct ct_chunk *c = &x->chunks[to].head;
        if (begins_generation(c))
            break;
        if (!x->wrapped && c->dict_seq < first && has_seq(x, kept, c->dict_seq))
            return from;
        own += c->dict_seq >= first;
        to++;
    } while (to < x->count && is_contiguous(x, to));
    if (own)
        return from;
    const int is_last = to == x->count;
    if (x->wrapped && is_last && has_seq(x, kept, x->chunks[from].head.dict_seq))
        return from;
    return to;
}

// Drops the chunks that cannot be read without overwritten ones.
static void drop_remnants(struct ct_index *x) {
    size_t kept = 0, generations = 0;
    for (size_t i = 0; i < x->count; i++)
        generations += (size_t)begins_generation(&x->chunks[i].head);
    for (size_t i = 0; generations && i < x->count;) {
        const size_t to = is_contiguous(x, i) ? i : find_remnant_end(x, kept, i);
        if (to == i)
            x->chunks[kept++] = x->chunks[i++];
        else
            i = to;
    }
    if (generations)
        x->count = kept;
}

// What is missing before a generation was overwritten; in a file that has not wrapped, damage hides
// it.
static void find_gaps(struct ct_index *x) {
    for (size_t i = 0; i < x->count; i++) {
        struct ct_index_chunk *c = &x->chunks[i];
        const uint64_t expected = i ? c[-1].head.seq + 1 : 0;
        c->gap = c->head.seq != expected;
        c->overwritten = c->gap && (!i || (x->wrapped && begins_generation(&c->head)));
        if (c->gap && !c->overwritten)
            x->missing += c->head.seq - expected;
    }
}

// Sorts the chunks of the trace by seq; drops those of other traces, duplicates, and provisional
// chunks that were replaced.
static void sort_chunks(struct ct_index *x) {
    x->trace_id = ct_index_trace_id(x);
    x->wrapped = !x->damages;
    for (size_t i = 1; i < x->count; i++) // still in the order of the file
        x->wrapped |= x->chunks[i].head.seq < x->chunks[i - 1].head.seq;
    qsort(x->chunks, x->count, sizeof *x->chunks, compare_seq);
    size_t kept = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct ct_index_chunk *c = &x->chunks[i];
        if (c->head.trace_id != x->trace_id) {
            x->foreign++;
        } else if (kept && x->chunks[kept - 1].head.seq == c->head.seq) {
            if (!is_replaced(&c->head, &x->chunks[kept - 1].head))
                ct_index_add_damage(x, c->offset, c->body + c->head.body_bytes - c->offset,
                                    "chunk whose number occurred before");
        } else {
            x->chunks[kept++] = *c;
        }
    }
    x->count = kept;
    drop_remnants(x);
    find_gaps(x);
}

static int has_journal_magic(const struct ct_source *source) {
    char magic[8];
    return ct_source_read(source, 0, magic, sizeof magic) == sizeof magic &&
           memcmp(magic, CT_JOURNAL_MAGIC, sizeof magic) == 0;
}

static const char *explain_no_chunk(const struct ct_index *x, const struct ct_source *source) {
    if (x->cut || (x->damages && x->damage[0].offset > 0))
        return "the trace is cut or damaged from its first chunk on";
    if (has_journal_magic(source))
        return "this is the journal of a trace; name the trace";
    return "this is no cutrace trace (a recompressed one cannot be read)";
}

int ct_index_sort(struct ct_index *x, const struct ct_source *source, struct ct_error *error) {
    const char *name = source->name;
    if (!source->bytes)
        return ct_error_set(
            error, CT_EXIT_BAD_TRACE,
            "%s: is empty (0 bytes); record again, the process ended before it wrote", name);
    if (x->newest || (!x->count && x->suspicious))
        return ct_error_set(
            error, CT_EXIT_BAD_TRACE,
            "%s: offset %" PRIu64 ": format version %u, this program reads up to %u; "
            "use the cutrace-report of the version that recorded it",
            name, x->newest_at, x->newest ? x->newest : x->suspicious, CT_FORMAT_VERSION);
    if (!x->count)
        return ct_error_set(error, CT_EXIT_BAD_TRACE,
                            "%s: offset 0: no readable chunk in %" PRIu64 " bytes; %s", name,
                            source->bytes, explain_no_chunk(x, source));
    sort_chunks(x);
    return 0;
}

uint64_t ct_index_first_ns(const struct ct_index *x, size_t i) {
    while (i < x->count && !x->chunks[i].head.events)
        i++;
    return i < x->count ? x->chunks[i].head.t_first_ns - x->chunks[i].rounded_ns : UINT64_MAX;
}

uint64_t ct_index_last_ns(const struct ct_index *x, size_t i) {
    while (i && !x->chunks[i].head.events)
        i--;
    return x->chunks[i].head.t_last_ns;
}

void ct_index_free(struct ct_index *x) {
    free(x->chunks);
    free(x->damage);
    *x = (struct ct_index){0};
}

// ---- checkpoints to begin at --------------------------------------------------------------------

enum { NOT_BEGUN = -1 };

// Whether a reader can begin at the chunk: its dictionaries begin here, too.
static int begins(const struct ct_index_chunk *c) {
    return c->head.flags & CT_CHUNK_RESTART && c->head.dict_seq == c->head.seq &&
           c->checkpoint & CT_CHECKPOINT_FIRST;
}

// Whether the chunk cannot belong to a checkpoint that began before it.
static int interrupts(const struct ct_index_chunk *c) {
    return c->bad || c->gap || !c->has_checkpoint || c->checkpoint & CT_CHECKPOINT_FIRST;
}

static void add(struct ct_seek_points *p, const struct ct_seek_point *point) {
    CT_HEAP_GROW(p->list, p->count, p->room);
    p->list[p->count++] = *point;
}

void ct_seek_points_find(struct ct_seek_points *p, const struct ct_index *index) {
    long long first = NOT_BEGUN;
    *p = (struct ct_seek_points){0};
    for (size_t i = 1; i < index->count; i++) { // nothing is gained by the first chunk
        const struct ct_index_chunk *c = &index->chunks[i];
        if (interrupts(c))
            first = NOT_BEGUN;
        if (!c->bad && begins(c))
            first = (long long)i;
        if (first == NOT_BEGUN || c->checkpoint & CT_CHECKPOINT_INEXACT ||
            !(c->checkpoint & CT_CHECKPOINT_LAST))
            continue;
        add(p, &(struct ct_seek_point){(size_t)first, i, c->head.first_event});
        first = NOT_BEGUN;
    }
}

void ct_seek_points_free(struct ct_seek_points *p) {
    free(p->list);
    *p = (struct ct_seek_points){0};
}

// ---- digests ------------------------------------------------------------------------------------

// Nothing of a digest is used before its checksum matches, and its figures are those that a writer
// claims: only replaying the chunk shows that they are right.

static const char *explain(enum ct_digest_found found) {
    if (found == CT_DIGEST_DAMAGED)
        return "digest with a wrong checksum";
    if (found == CT_DIGEST_MALFORMED)
        return "malformed digest";
    return NULL;
}

int ct_digest_read(const struct ct_source *source, const struct ct_index_chunk *chunk,
                   struct ct_digest *digest, struct ct_digest_body *body, const char **what) {
    uint8_t frame[CT_DIGEST_BYTES];
    const uint32_t n = chunk->digest_bytes;
    *what = NULL;
    // (Those of a later version may be larger.)
    if (!n || n > sizeof frame)
        return 0;
    if (ct_source_read(source, chunk->body + chunk->head.body_bytes, frame, n) != n) {
        *what = "digest that cannot be read";
        return -1;
    }
    const enum ct_digest_found found = ct_digest_decode(digest, body, &chunk->head, frame, n);
    *what = explain(found);
    if (*what)
        return -1;
    return found == CT_DIGEST_VALID;
}

void ct_digest_add_damage(struct ct_index *x, const struct ct_index_chunk *chunk,
                          const char *what) {
    ct_index_add_damage(x, chunk->body + chunk->head.body_bytes, chunk->digest_bytes, what);
}

static int read_or_note(struct ct_index *x, const struct ct_source *source, size_t i,
                        struct ct_digest *digest) {
    struct ct_digest_body body;
    const char *what;
    const int found = ct_digest_read(source, &x->chunks[i], digest, &body, &what);
    if (found < 0)
        ct_digest_add_damage(x, &x->chunks[i], what);
    return found > 0;
}

size_t ct_digest_count(struct ct_index *x, const struct ct_source *source) {
    struct ct_digest *digest = ct_heap_resize(NULL, 1, sizeof *digest);
    size_t n = 0;
    for (size_t i = 0; i < x->count; i++)
        n += (size_t)read_or_note(x, source, i, digest);
    free(digest);
    return n;
}

// Whether one digest continues another, of the chunk before.
static int continues(const struct ct_digest *before, const struct ct_digest *after) {
    for (int i = 0; i < CT_DEVICES; i++) {
        const struct ct_digest_device *d = &after->device[i];
        if (d->live_bytes - d->flow.taken.bytes + d->flow.given.bytes !=
            before->device[i].live_bytes)
            return 0;
    }
    return 1;
}

size_t ct_digest_check_chain(struct ct_index *x, const struct ct_source *source) {
    struct ct_digest *pair = ct_heap_resize(NULL, 2, sizeof *pair);
    size_t n = 0;
    int has_before = 0;
    for (size_t i = 0; i < x->count; i++) {
        const int has = read_or_note(x, source, i, &pair[i % 2]);
        if (has && has_before && !x->chunks[i].gap && !continues(&pair[(i + 1) % 2], &pair[i % 2]))
            ct_digest_add_damage(x, &x->chunks[i], "digest that contradicts the one before it");
        has_before = has;
        n += (size_t)has;
    }
    free(pair);
    return n;
}
