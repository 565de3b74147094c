// SPDX-License-Identifier: Apache-2.0
// Finds the chunks of a trace. Frames follow one another; where they do not (damage), the next valid
// prefix is searched for. Nothing that the file says is believed before the checksum of its prefix fits.
#include "read/index.h"

#include <cutrace/format/journal.h>
#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include <cutrace/format/xxh64.h>

enum found { FOUND_CHUNK, FOUND_FRAME, FOUND_CUT, FOUND_DAMAGE };

struct walk {
    struct ct_index *index;
    const struct ct_source *source;
    uint64_t end; // where what is looked at ends
};

static uint32_t le32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

void ct_index_damage(struct ct_index *x, uint64_t offset, uint64_t bytes, const char *what) {
    CT_HEAP_GROW(x->damage, x->damages, x->damage_capacity);
    x->damage[x->damages++] = (struct ct_damage){offset, bytes, what};
}

static int prefix_valid(struct walk *w, uint64_t at, const uint8_t *prefix) {
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

// Adds the chunk whose valid prefix lies at an offset, and moves behind its body.
static enum found add_chunk(struct walk *w, uint64_t *at, const uint8_t *prefix) {
    struct ct_index *x = w->index;
    struct ct_index_chunk c = {.offset = *at};
    memcpy(&c.head, prefix + 8, sizeof c.head);
    c.body = *at + 8 + le32(prefix + 4);
    if (c.body > w->end || c.head.body_bytes > w->end - c.body)
        return FOUND_CUT;
    *at = c.body + c.head.body_bytes;
    if (c.head.raw_bytes > CT_MAX_BODY || c.head.dict_seq > c.head.seq ||
        c.head.events > CT_MAX_EVENTS || c.head.flags & CT_CHUNK_REQUIRED) {
        ct_index_damage(x, c.offset, *at - c.offset,
                        c.head.flags & CT_CHUNK_REQUIRED ? "chunk with an unknown feature"
                                                         : "chunk with impossible sizes");
        return FOUND_CHUNK;
    }
    CT_HEAP_GROW(x->chunks, x->count, x->capacity);
    x->chunks[x->count++] = c;
    return FOUND_CHUNK;
}

// What lies at an offset; moves behind it unless it is damaged or cut.
static enum found look(struct walk *w, uint64_t *at) {
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
    *at += 8 + (uint64_t)length;
    return FOUND_FRAME;
}

// Offset of the next valid prefix at or behind `from`, or the end of the source. Reads little at first: in a
// file with damage everywhere it is near.
static uint64_t next_prefix(struct walk *w, uint64_t from) {
    enum { MOST = 1 << 16 };
    static uint8_t block[MOST + CT_PREFIX_BYTES];
    const uint64_t end = w->end;
    uint64_t at = (from + CT_CHUNK_ALIGN - 1) & ~(uint64_t)(CT_CHUNK_ALIGN - 1);
    for (size_t size = 512; at < end; at += size, size = size < MOST ? size * 2 : MOST) {
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
    struct walk all = {.index = x, .source = source, .end = to}, *w = &all;
    const uint64_t end = to;
    for (uint64_t at = from; at < end;) {
        const uint64_t before = at;
        const enum found found = look(w, &at);
        if (found == FOUND_CHUNK || found == FOUND_FRAME)
            continue;
        at = next_prefix(w, before + CT_CHUNK_ALIGN);
        if (found == FOUND_CUT && at == end) {
            x->cut = 1;
            x->cut_at = before;
        }
        ct_index_damage(x, before, at - before,
                        at == end && found == FOUND_CUT ? "the file ends inside a chunk"
                                                        : "bytes that are no chunk");
    }
}

static int by_seq(const void *a, const void *b) {
    const struct ct_index_chunk *x = a, *y = b;
    if (x->head.seq != y->head.seq)
        return x->head.seq < y->head.seq ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int by_id(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void ct_index_forgive_cut(struct ct_index *x) {
    if (x->cut && x->damages && x->damage[x->damages - 1].offset == x->cut_at)
        x->damages--;
    x->mended = x->cut;
    x->cut = 0;
}

// The trace that the file is: the one at its beginning, or the one with the most chunks.
uint64_t ct_index_trace_id(const struct ct_index *x) {
    if (x->chunks[0].offset == 0)
        return x->chunks[0].head.trace_id;
    uint64_t *ids = ct_heap_resize(NULL, x->count, sizeof *ids), best = 0;
    for (size_t i = 0; i < x->count; i++)
        ids[i] = x->chunks[i].head.trace_id;
    qsort(ids, x->count, sizeof *ids, by_id);
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

// ---- a file that is a ring ---------------------------------------------------------------------

// Whether one of the first n chunks has this number.
static int has_number(const struct ct_index *x, size_t n, uint64_t seq) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (x->chunks[middle].head.seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && x->chunks[low].head.seq == seq;
}

static int begins_segment(const struct ct_chunk *c) {
    return c->flags & CT_CHUNK_RESTART && c->dict_seq == c->seq;
}

static int follows(const struct ct_index *x, size_t i) {
    return x->chunks[i].head.seq == (i ? x->chunks[i - 1].head.seq + 1 : 0);
}

// In the unbroken run of chunks at `from`: where the rest of a segment ends that was overwritten in part. In a file that
// has not gone round but is damaged, a run that has its definitions, before the gap or in itself, is no such rest, but what a loss has
// left. In one that has, the beginning of the segment may be there because it is kept for a refused allocation.
static size_t behind_rest(const struct ct_index *x, size_t kept, size_t from) {
    const uint64_t first = x->chunks[from].head.seq;
    size_t to = from, own = 0;
    do {
        const struct ct_chunk *c = &x->chunks[to].head;
        if (begins_segment(c))
            return to;
        if (!x->round && c->dict_seq < first && has_number(x, kept, c->dict_seq))
            return from;
        own += c->dict_seq >= first;
        to++;
    } while (to < x->count && follows(x, to));
    return own || (x->round && to == x->count && has_number(x, kept, x->chunks[from].head.dict_seq))
               ? from
               : to;
}

// When the file is full, the oldest chunks are overwritten, and what depends on them is void.
static void drop_rests(struct ct_index *x) {
    size_t kept = 0, segments = 0;
    for (size_t i = 0; i < x->count; i++)
        segments += (size_t)begins_segment(&x->chunks[i].head);
    for (size_t i = 0; segments && i < x->count;) {
        const size_t to = follows(x, i) ? i : behind_rest(x, kept, i);
        if (to == i)
            x->chunks[kept++] = x->chunks[i++];
        else
            i = to;
    }
    if (segments)
        x->count = kept;
}

static void find_gaps(struct ct_index *x) {
    for (size_t i = 0; i < x->count; i++) {
        struct ct_index_chunk *c = &x->chunks[i];
        const uint64_t expected = i ? c[-1].head.seq + 1 : 0;
        c->gap = c->head.seq != expected;
        c->overwritten = c->gap && (!i || begins_segment(&c->head));
        if (c->gap && !c->overwritten)
            x->missing += c->head.seq - expected;
    }
}

// Leaves the chunks of one trace, each number once.
static void order(struct ct_index *x) {
    x->trace_id = ct_index_trace_id(x);
    x->round = !x->damages;
    for (size_t i = 1; i < x->count; i++) // as they lie in the file
        x->round |= x->chunks[i].head.seq < x->chunks[i - 1].head.seq;
    qsort(x->chunks, x->count, sizeof *x->chunks, by_seq);
    size_t kept = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct ct_index_chunk *c = &x->chunks[i];
        if (c->head.trace_id != x->trace_id) {
            x->foreign++;
        } else if (kept && x->chunks[kept - 1].head.seq == c->head.seq) {
            ct_index_damage(x, c->offset, c->body + c->head.body_bytes - c->offset,
                            "chunk whose number occurred before");
        } else {
            x->chunks[kept++] = *c;
        }
    }
    x->count = kept;
    drop_rests(x);
    find_gaps(x);
}

static int is_journal(const struct ct_source *source) {
    char magic[8];
    return ct_source_read(source, 0, magic, sizeof magic) == sizeof magic &&
           memcmp(magic, CT_JOURNAL_MAGIC, sizeof magic) == 0;
}

int ct_index_sort(struct ct_index *x, const struct ct_source *source, struct ct_error *error) {
    const char *name = source->name;
    if (!source->bytes)
        return ct_error_set(error, CT_EXIT_BAD_TRACE,
                       "%s: is empty (0 bytes); record again, the process ended before it wrote",
                       name);
    if (x->newest || (!x->count && x->suspicious))
        return ct_error_set(error, CT_EXIT_BAD_TRACE,
                       "%s: offset %" PRIu64 ": format version %u, this program reads up to %u; "
                       "use the cutrace-report of the version that recorded it",
                       name, x->newest_at, x->newest ? x->newest : x->suspicious,
                       CT_FORMAT_VERSION);
    if (!x->count) {
        const int cut = x->cut || (x->damages && x->damage[0].offset > 0);
        return ct_error_set(
            error, CT_EXIT_BAD_TRACE, "%s: offset 0: no readable chunk in %" PRIu64 " bytes; %s", name,
            source->bytes,
            cut                  ? "the trace is cut or damaged from its first chunk on"
            : is_journal(source) ? "this is the journal of a trace; name the trace"
                                 : "this is no cutrace trace (a recompressed one cannot be read)");
    }
    order(x);
    return 0;
}

uint64_t ct_index_first_ns(const struct ct_index *x, size_t i) {
    while (i < x->count && !x->chunks[i].head.events)
        i++;
    return i < x->count ? x->chunks[i].head.t_first_ns : UINT64_MAX;
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
