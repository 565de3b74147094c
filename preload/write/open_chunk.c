// SPDX-License-Identifier: Apache-2.0
// The open chunk: the one that is being filled. Events in, as columns; definitions in, as bytes; a
// body out.
//
// Invariants:
// O1 The journal has two headers. open[committed & 1] is valid and is not written to; a commit
//    writes the other one and then increments `committed` (release). A kill at any point leaves one
//    valid header.
// O2 Bytes of a stream only grow. Those after the committed length (`used` of the last block) are
//    not valid.
// O3 The blocks of a chunk are used again only after a commit that does not name them.
#include "write/open_chunk.h"

#include <errno.h>

#include <cutrace/format/assert.h>
#include <cutrace/model/digest_code.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/pages.h"
#include "store/chunk_encode.h"
#include "store/journal.h"
#include "write/drain_lock.h"

static struct {
    struct ct_journal_open now;
    struct ct_encoder *columns;
    void *columns_memory;
    struct ct_out sections[CT_STREAM_COLUMNS];
    uint64_t full[CT_STREAMS]; // bytes in the blocks of a stream before its last one
    uint32_t blocks_used;
} s;

static struct ct_out *stream_out(unsigned stream) {
    return stream < CT_STREAM_COLUMNS ? &s.sections[stream]
                                      : &s.columns->stream[stream - CT_STREAM_COLUMNS];
}

static uint32_t last_block_bytes(unsigned stream) {
    const uint32_t last = s.now.stream[stream].last;
    return last ? (uint32_t)(stream_out(stream)->at - ct_journal_get_block(last)->bytes) : 0;
}

static uint64_t stream_bytes(unsigned stream) {
    return s.full[stream] + last_block_bytes(stream);
}

// Appends a block to a stream. Returns 0, or -1: none is left.
static int add_block(unsigned stream) {
    if (s.blocks_used == CT_JOURNAL_BLOCKS)
        return -1;
    const uint32_t i = ++s.blocks_used, before = s.now.stream[stream].last;
    struct ct_stream_block *b = ct_journal_get_block(i);
    b->next = b->used = 0;
    if (before) {
        struct ct_stream_block *last = ct_journal_get_block(before);
        last->used = last_block_bytes(stream);
        last->next = i;
        s.full[stream] += last->used;
    } else {
        s.now.stream[stream].first = i;
    }
    s.now.stream[stream].last = i;
    *stream_out(stream) = (struct ct_out){b->bytes, b->bytes + sizeof b->bytes, 0};
    return 0;
}

static int add_column_block(void *unused, unsigned column, struct ct_out *out) {
    (void)unused;
    (void)out;
    return add_block(CT_STREAM_COLUMNS + column);
}

static int map_memory(void) {
    if (!s.columns)
        s.columns = ct_pages_map(sizeof *s.columns);
    if (!s.columns_memory)
        s.columns_memory = ct_pages_map(ct_encoder_memory_bytes());
    return s.columns && s.columns_memory ? 0 : -ENOMEM;
}

static void begin_columns(void) {
    memset(s.columns->stream, 0, sizeof s.columns->stream);
    ct_encoder_begin(s.columns, s.columns_memory, CT_OPTION_NUMBER(TICK_NS));
    s.columns->room = add_column_block;
}

struct ct_encoder *ct_open_chunk_get_encoder(void) {
    return s.columns;
}

void ct_open_chunk_reset_encoder(void) {
    begin_columns();
}

int ct_open_chunk_begin(uint64_t seq, uint64_t dict_seq, uint64_t first_event) {
    const uint64_t drained_ns = s.now.drained_ns;
    if (!ct_journal_get() || map_memory())
        return -ENOMEM;
    memset(&s.now, 0, sizeof s.now);
    memset(s.full, 0, sizeof s.full);
    memset(s.sections, 0, sizeof s.sections);
    begin_columns();
    s.now.seq = seq;
    s.now.dict_seq = dict_seq;
    s.now.first_event = first_event;
    ct_open_chunk_commit(drained_ns);
    s.blocks_used = 0; // O3
    return 0;
}

void ct_open_chunk_mark_restart(void) {
    s.now.flags |= CT_CHUNK_RESTART;
}

int ct_open_chunk_define(enum ct_section kind, const void *bytes, size_t n) {
    const uint8_t *from = bytes;
    struct ct_out *o = stream_out(kind);
    while (n) {
        if (o->at == o->end && add_block(kind))
            return -1;
        const size_t room = (size_t)(o->end - o->at), part = n < room ? n : room;
        memcpy(o->at, from, part);
        o->at += part;
        from += part;
        n -= part;
    }
    return 0;
}

int ct_open_chunk_put_event(const struct ct_event *e, const struct ct_encoder_probe *probe,
                            uint64_t next_ns) {
    s.columns->next_ns = next_ns;
    if (ct_encoder_put_probed(s.columns, e, probe))
        return -1;
    s.now.records++;
    if (e->op == CT_OP_AMEND) {
        s.now.flags |= CT_CHUNK_AMENDS;
        return 0;
    }
    if (!s.now.events++)
        s.now.t_first_ns = e->t_ns;
    s.now.t_last_ns = e->t_ns;
    return 0;
}

void ct_open_chunk_commit(uint64_t drained_ns) {
    CT_ASSERT(ct_drain_lock_is_held());
    struct ct_journal *h = ct_journal_get();
    const uint64_t next = atomic_load_explicit(&h->committed, memory_order_relaxed) + 1;
    for (unsigned i = 0; i < CT_STREAMS; i++)
        s.now.stream[i].used = last_block_bytes(i);
    s.now.drained_ns = drained_ns;
    h->open[next & 1] = s.now; // O1
    atomic_store_explicit(&h->committed, next, memory_order_release);
}

int ct_open_chunk_is_committed(void) {
    const struct ct_journal *h = ct_journal_get();
    const uint64_t committed = atomic_load_explicit(&h->committed, memory_order_relaxed);
    const struct ct_journal_open *valid = &h->open[committed & 1];
    return valid->seq == s.now.seq && valid->records == s.now.records;
}

struct ct_journal_open *ct_open_chunk_get(void) {
    return &s.now;
}

size_t ct_open_chunk_definition_bytes(void) {
    size_t n = 0;
    for (unsigned k = CT_SECTION_INFO; k <= CT_SECTION_THREADS; k++)
        n += stream_bytes(k);
    return n;
}

uint32_t ct_open_chunk_blocks_left(void) {
    return CT_JOURNAL_BLOCKS - s.blocks_used;
}

// ---- the chunk's body -----------------------------------------------------------------------

#define SECTION_HEAD_BYTES 5u // kind and length

static void put_section_head(enum ct_section kind, uint64_t bytes) {
    uint8_t head[SECTION_HEAD_BYTES + 8];
    struct ct_out o = {head, head + sizeof head, 0};
    ct_put_varint(&o, kind);
    ct_put_u32(&o, (uint32_t)bytes);
    ct_chunk_encode_cut();
    ct_chunk_encode_put(head, SECTION_HEAD_BYTES);
}

static void put_stream(unsigned stream) {
    const uint32_t last = s.now.stream[stream].last;
    for (uint32_t i = s.now.stream[stream].first; i; i = ct_journal_get_block(i)->next) {
        const struct ct_stream_block *b = ct_journal_get_block(i);
        ct_chunk_encode_put(b->bytes, i == last ? last_block_bytes(stream) : b->used);
        if (i == last)
            break;
    }
}

// The head of a column. Before that of the first column stands the number of records.
static size_t column_head(unsigned column, uint8_t head[CT_COLUMN_HEAD_BYTES]) {
    struct ct_out o = {head, head + CT_COLUMN_HEAD_BYTES, 0};
    if (column == CT_COLUMN_TEMPLATE)
        ct_put_varint(&o, s.now.records);
    ct_encoder_put_column_head(&o, column, (uint32_t)stream_bytes(CT_STREAM_COLUMNS + column));
    return (size_t)(o.at - head);
}

// Every record has bytes in the first column, so its head comes first.
static uint64_t columns_bytes(void) {
    uint8_t head[CT_COLUMN_HEAD_BYTES];
    uint64_t n = 0;
    for (unsigned c = 0; c < CT_COLUMNS; c++)
        if (stream_bytes(CT_STREAM_COLUMNS + c))
            n += column_head(c, head) + stream_bytes(CT_STREAM_COLUMNS + c);
    return n;
}

static void put_columns(void) {
    uint8_t head[CT_COLUMN_HEAD_BYTES];
    put_section_head(CT_SECTION_EVENTS, columns_bytes());
    for (unsigned c = 0; c < CT_COLUMNS; c++) {
        if (!stream_bytes(CT_STREAM_COLUMNS + c))
            continue;
        ct_chunk_encode_cut();
        ct_chunk_encode_put(head, column_head(c, head));
        put_stream(CT_STREAM_COLUMNS + c);
    }
}

static uint64_t definition_section_bytes(void) {
    uint64_t n = 0;
    for (unsigned k = CT_SECTION_INFO; k <= CT_SECTION_THREADS; k++)
        n += stream_bytes(k) ? SECTION_HEAD_BYTES + stream_bytes(k) : 0;
    return n;
}

static uint64_t body_bytes(void) {
    return definition_section_bytes() + (s.now.records ? SECTION_HEAD_BYTES + columns_bytes() : 0);
}

static void encode_body(const void *extra, size_t extra_bytes) {
    struct ct_in in = {extra, (const uint8_t *)extra + extra_bytes, 0}, section;
    unsigned kind;
    for (unsigned k = CT_SECTION_INFO; k <= CT_SECTION_THREADS; k++)
        if (stream_bytes(k)) {
            put_section_head((enum ct_section)k, stream_bytes(k));
            put_stream(k);
        }
    for (const uint8_t *at = in.at; ct_section_next(&in, &kind, &section) > 0; at = in.at) {
        ct_chunk_encode_cut();
        ct_chunk_encode_put(at, (size_t)(in.at - at));
    }
    if (s.now.records)
        put_columns();
}

// What a reader may want of the body, so that it need not read all of it.
static struct ct_digest_body describe_body(const void *extra, size_t extra_bytes) {
    struct ct_digest_body body = {.definition_bytes = definition_section_bytes()};
    struct ct_in in = {extra, (const uint8_t *)extra + extra_bytes, 0}, section;
    unsigned kind;
    while (ct_section_next(&in, &kind, &section) > 0) {
        if (kind != CT_SECTION_CHECKPOINT)
            continue;
        body.has_checkpoint = 1;
        body.checkpoint |= (int)ct_get_varint(&section);
    }
    return body;
}

_Static_assert(CT_DIGEST_BYTES <= CT_CHUNK_DIGEST_BYTES, "the chunk's memory has room for it");

size_t ct_open_chunk_build(struct ct_chunk *head, const void *extra, size_t extra_bytes,
                           const struct ct_digest *digest, uint8_t *out, size_t room) {
    *head = (struct ct_chunk){.flags = s.now.flags | head->flags,
                              .seq = s.now.seq,
                              .dict_seq = s.now.dict_seq,
                              .first_event = s.now.first_event,
                              .events = s.now.events,
                              .t_first_ns = s.now.t_first_ns,
                              .t_last_ns = s.now.t_last_ns,
                              .trace_id = head->trace_id};
    if (ct_chunk_encode_begin(body_bytes() + extra_bytes, (int)CT_OPTION_NUMBER(COMPRESS), out,
                              room))
        return 0;
    encode_body(extra, extra_bytes);
    if (ct_chunk_encode_end_body(head))
        return 0;
    if (digest) {
        const struct ct_digest_body body = describe_body(extra, extra_bytes);
        ct_chunk_encode_add_digest(
            ct_digest_encode(digest, &body, head, ct_chunk_encode_digest_place()));
    }
    return ct_chunk_encode_end();
}

void ct_open_chunk_reinit_child(void) {
    // Its memory leaks: another thread of the parent may have been writing to it.
    memset(&s, 0, sizeof s);
}

// ---- provisional chunks -----------------------------------------------------------------------

#define VERSIONS 3u // of a chunk, before it is complete

static struct {
    uint64_t contents, written; // of the open chunk, and of it in the file
    uint64_t due_ns;
    unsigned versions;
} plan;

void ct_provisional_begin_chunk(void) {
    plan.contents = plan.written = plan.due_ns = plan.versions = 0;
}

// The time between something new and the provisional chunk that has it; 0: there is none. It is so
// long that VERSIONS of them are enough for the time until the chunk is complete.
static uint64_t choose_interval(uint64_t flush_ns) {
    const uint64_t asked = CT_OPTION_NUMBER(UPDATE_MS), least = flush_ns / (VERSIONS + 1);
    if (!asked || CT_OPTION_NUMBER(MEMORY) || plan.versions == VERSIONS)
        return 0;
    return asked > least ? asked : least;
}

uint64_t ct_provisional_plan(uint64_t contents, uint64_t flush_ns) {
    const uint64_t interval = choose_interval(flush_ns);
    plan.contents = contents;
    if (contents == plan.written || !interval)
        plan.due_ns = 0;
    else if (!plan.due_ns)
        plan.due_ns = ct_clock_read() + interval;
    return plan.due_ns;
}

int ct_provisional_is_due(void) {
    return plan.due_ns && ct_clock_read() >= plan.due_ns;
}

void ct_provisional_note_written(void) {
    plan.written = plan.contents;
    plan.due_ns = 0;
    plan.versions++;
}
