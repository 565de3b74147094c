// SPDX-License-Identifier: Apache-2.0
// The chunks that were in memory, then the open chunk, then chunks of the events that were still in
// rings, with dictionaries of their own. The same journal always gives the same bytes, so that an
// interrupted seal can be repeated.
#include "read/journal_read.h"

#include <cutrace/format/assert.h>
#include <cutrace/format/encode.h>
#include <cutrace/format/xxh64.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "read/chunk_build.h"
#include "read/journal_definitions.h"

#define RECORDS 65536u         // in a chunk
#define RECORD_BYTES 320u      // of an encoded event, at most
#define DEFINITIONS (8u << 20) // bytes of definitions after which a chunk ends

struct conversion {
    struct ct_journal_contents *j;
    struct ct_buffer out;                      // the chunks
    uint64_t seq, first_event;                 // of the next chunk
    int made;                                  // a chunk was built here
    size_t last_at;                            // offset in `out` of the last chunk's prefix
    struct ct_journal_definitions definitions; // of the events in rings
    uint64_t lost; // events in all, also where the records of it were overwritten
};

// ---- chunks -------------------------------------------------------------------------------------

static void append_chunk(struct conversion *f, const struct ct_buffer *body, struct ct_chunk head) {
    head.version = CT_FORMAT_VERSION;
    head.trace_id = f->j->head.trace_id;
    f->last_at = f->out.n;
    f->made = 1;
    ct_chunk_build_append(&f->out, body, head);
    f->seq = head.seq + 1;
    f->first_event = head.first_event + head.events;
    f->j->folded += head.events;
}

// ---- chunks in memory ---------------------------------------------------------------------------

// Moves the chunks in memory to the output, without those that the file has. `newest` becomes the
// newest of all chunks.
static void append_memory_chunks(struct conversion *f, const struct ct_index *x,
                                 struct ct_chunk *newest) {
    struct ct_journal_contents *j = f->j;
    const struct ct_source source = {
        .fd = -1, .memory = j->memory, .bytes = j->memory_bytes, .file_bytes = j->memory_bytes};
    struct ct_index found = {0};
    struct ct_map in_file = {0};
    for (size_t i = 0; i < x->count; i++)
        if (x->chunks[i].head.trace_id == j->head.trace_id)
            *ct_map_add(&in_file, x->chunks[i].head.seq + 1) = 1;
    ct_index_scan(&found, &source, 0, source.bytes);
    j->damaged += found.damages;
    f->out = (struct ct_buffer){j->memory, 0, j->memory_cap};
    j->memory = NULL;
    for (size_t i = 0; i < found.count; i++) {
        const struct ct_index_chunk *c = &found.chunks[i];
        const uint64_t end = ct_index_end_of(c), n = end - c->offset + 8 + (-end & 7);
        if (c->head.trace_id != j->head.trace_id || n > source.bytes - c->offset ||
            ct_map_find(&in_file, c->head.seq + 1))
            continue;
        CT_ASSERT(f->out.n <= c->offset); // to its own place or an earlier one
        memmove(f->out.at + f->out.n, f->out.at + c->offset, (size_t)n);
        f->out.n += (size_t)n;
        j->folded += c->head.events;
        if (!newest->version || c->head.seq > newest->seq)
            *newest = c->head;
    }
    ct_map_free(&in_file);
    ct_index_free(&found);
}

// ---- the open chunk -----------------------------------------------------------------------------

static void append_columns(const struct ct_journal_contents *j, struct ct_buffer *body) {
    struct ct_buffer section = {0};
    struct ct_out o = {ct_buffer_reserve(&section, 16), NULL, 0};
    o.end = o.at + 16;
    ct_put_varint(&o, j->open.records);
    section.n = (size_t)(o.at - section.at);
    for (unsigned s = CT_STREAM_COLUMNS; s < CT_STREAMS; s++) {
        const size_t n = j->stream_at[s + 1] - j->stream_at[s];
        if (!n)
            continue;
        o.at = ct_buffer_reserve(&section, 32);
        o.end = o.at + 32;
        ct_encoder_put_column_head(&o, s - CT_STREAM_COLUMNS, (uint32_t)n);
        section.n = (size_t)(o.at - section.at);
        ct_buffer_append(&section, j->streams + j->stream_at[s], n);
    }
    ct_chunk_build_section(body, CT_SECTION_EVENTS, section.at, section.n);
    free(section.at);
}

static void append_open_chunk(struct conversion *f) {
    const struct ct_journal_contents *j = f->j;
    const struct ct_journal_open *o = &j->open;
    struct ct_buffer body = {0};
    f->seq = o->seq;
    f->first_event = o->first_event;
    if (!j->stream_at[CT_STREAMS])
        return;
    for (unsigned k = CT_SECTION_INFO; k <= CT_SECTION_THREADS; k++)
        if (j->stream_at[k + 1] > j->stream_at[k])
            ct_chunk_build_section(&body, k, j->streams + j->stream_at[k],
                                   j->stream_at[k + 1] - j->stream_at[k]);
    if (o->records)
        append_columns(j, &body);
    append_chunk(f, &body,
                 (struct ct_chunk){.flags = o->flags & ~(CT_CHUNK_LAST | CT_CHUNK_SEALED),
                                   .seq = o->seq,
                                   .dict_seq = o->dict_seq,
                                   .first_event = o->first_event,
                                   .events = o->events,
                                   .t_first_ns = o->events ? o->t_first_ns : 0,
                                   .t_last_ns = o->events ? o->t_last_ns : 0});
    free(body.at);
}

// ---- events that were still in rings ------------------------------------------------------------

// Turns an id of an event into that of the chunks. An unknown one is absent.
#define SET_ID(e, field, to_id, d)                                      \
    do {                                                                \
        if (CT_HAS(e, field) && !((e)->field = (to_id)(d, (e)->field))) \
            (e)->present &= ~CT_BIT(field);                             \
    } while (0)

static void decode_record(struct conversion *f, const struct ct_journal_record *p,
                          struct ct_event *e) {
    struct ct_journal_definitions *d = &f->definitions;
    memset(e, 0, sizeof *e);
    memcpy(&e->present, p->record, sizeof e->present);
    memcpy(e, p->record, ct_journal_record_bytes(e->present));
    SET_ID(e, api, ct_journal_definitions_name, d);
    SET_ID(e, text, ct_journal_definitions_name, d);
    SET_ID(e, domain, ct_journal_definitions_name, d);
    SET_ID(e, category, ct_journal_definitions_name, d);
    SET_ID(e, thread, ct_journal_definitions_thread, d);
    SET_ID(e, stack, ct_journal_definitions_stack, d);
    if (CT_HAS(e, op) && e->op == CT_OP_LOST)
        f->lost += e->count;
}

// A chunk of events, with the definitions since the last chunk. Their dictionaries begin with the
// chunk dict_seq.
static void append_events(struct conversion *f, const struct ct_event *events, uint32_t n,
                          const struct ct_buffer *info, uint64_t dict_seq) {
    struct ct_chunk head = {.seq = f->seq, .dict_seq = dict_seq, .first_event = f->first_event};
    struct ct_buffer body = {0};
    if (info && info->n)
        ct_chunk_build_section(&body, CT_SECTION_INFO, info->at, info->n);
    ct_journal_definitions_flush(&f->definitions, &body);
    for (uint32_t i = 0; i < n; i++) {
        if (CT_HAS(&events[i], op) && events[i].op == CT_OP_AMEND) {
            head.flags |= CT_CHUNK_AMENDS;
            continue;
        }
        if (!head.events++)
            head.t_first_ns = events[i].t_ns;
        head.t_last_ns = events[i].t_ns;
    }
    const size_t bound = (size_t)n * RECORD_BYTES + 4096;
    struct ct_out o = {ct_buffer_reserve(&body, bound), NULL, 0};
    o.end = o.at + bound;
    if (n)
        ct_encode_plain(&o, events, n);
    body.n = (size_t)(o.at - body.at);
    append_chunk(f, &body, head);
    free(body.at);
}

static struct ct_event make_lost_event(struct conversion *f, const struct ct_journal_loss *loss,
                                       uint64_t after_ns) {
    struct ct_event e = {0};
    f->lost += loss->count;
    CT_SET(&e, t_ns, loss->t_ns > after_ns ? loss->t_ns : after_ns);
    CT_SET(&e, op, CT_OP_LOST);
    CT_SET(&e, count, loss->count);
    CT_SET(&e, thread, loss->thread);
    SET_ID(&e, thread, ct_journal_definitions_thread, &f->definitions);
    return e;
}

// INFO pairs: what was lost, damaged or torn, so that a sealed trace reports it, too.
static void append_info(const struct conversion *f, struct ct_buffer *info) {
    const struct {
        const char *key;
        uint64_t value;
    } all[] = {{"journal.torn_events", f->j->torn},
               {"journal.damaged_rings", f->j->damaged},
               {"recorder.lost_events", f->lost}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char value[32];
        const int n = snprintf(value, sizeof value, "%" PRIu64, all[i].value);
        struct ct_out o = {ct_buffer_reserve(info, 128), NULL, 0};
        o.end = o.at + 128;
        ct_put_text(&o, all[i].key, strlen(all[i].key));
        ct_put_text(&o, value, (size_t)n);
        info->n = (size_t)(o.at - info->at);
    }
}

// The events of the rings after a time, then those that were lost. The last chunk has the INFO
// pairs, too, if this is the end of the trace.
static void append_rings(struct conversion *f, uint64_t after_ns, int is_end) {
    struct ct_journal_contents *j = f->j;
    struct ct_event *events = ct_heap_resize(NULL, RECORDS, sizeof *events);
    const uint64_t dict_seq = f->seq;
    struct ct_buffer info = {0};
    uint32_t n = 0;
    uint64_t last_ns = after_ns;
    ct_journal_definitions_init(&f->definitions, j);
    for (size_t i = 0; i < j->pending_count + j->loss_count; i++) {
        if (i >= j->pending_count) {
            events[n++] = make_lost_event(f, &j->losses[i - j->pending_count], last_ns);
        } else if (j->pending[i].t_ns > after_ns) {
            decode_record(f, &j->pending[i], &events[n++]);
        }
        last_ns = n && events[n - 1].t_ns > last_ns ? events[n - 1].t_ns : last_ns;
        if (n < RECORDS && ct_journal_definitions_bytes(&f->definitions) < DEFINITIONS)
            continue;
        append_events(f, events, n, NULL, dict_seq);
        n = 0;
    }
    if (is_end)
        append_info(f, &info);
    if (n || info.n)
        append_events(f, events, n, &info, dict_seq);
    ct_journal_definitions_free(&f->definitions);
    free(info.at);
    free(events);
}

// ---- the journal --------------------------------------------------------------------------------

// Marks the last chunk as the end of a trace that was made from a journal.
static void mark_sealed(struct conversion *f) {
    struct ct_chunk head;
    uint8_t *at = f->out.at + f->last_at + 8;
    memcpy(&head, at, sizeof head);
    head.flags |= CT_CHUNK_SEALED;
    head.checksum = ct_xxh64(&head, offsetof(struct ct_chunk, checksum));
    memcpy(at, &head, sizeof head);
}

// Whether an interrupted seal wrote the chunk: its seq is above that of the open chunk, or the same
// if the open chunk is empty.
static int is_leftover(const struct ct_journal_contents *j, const struct ct_chunk *c) {
    const int instead = c->seq == j->open.seq && !j->stream_at[CT_STREAMS] &&
                        c->dict_seq == c->seq && !(c->flags & (CT_CHUNK_LAST | CT_CHUNK_RESTART));
    return c->trace_id == j->head.trace_id && (c->seq > j->open.seq || instead);
}

// Removes the chunks of an interrupted seal from the index. They are made again, to be written to
// the same offset.
static void remove_leftovers(struct ct_journal_contents *j, struct ct_index *x) {
    size_t kept = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct ct_index_chunk *c = &x->chunks[i];
        if (is_leftover(j, &c->head)) {
            if (!j->append_at || c->offset < j->append_at)
                j->append_at = c->offset;
            continue;
        }
        x->chunks[kept++] = *c;
    }
    x->count = kept;
}

// Removes the provisional chunks of the open chunk from the index: the journal has all of it. (That
// of a living process may have been read before the file was.)
static void remove_provisional(const struct ct_journal_contents *j, struct ct_index *x) {
    size_t kept = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct ct_chunk *c = &x->chunks[i].head;
        if (!(c->flags & CT_CHUNK_PROVISIONAL) || c->trace_id != j->head.trace_id ||
            c->seq != j->open.seq || c->events > j->open.events)
            x->chunks[kept++] = x->chunks[i];
    }
    x->count = kept;
}

static struct ct_chunk find_newest(const struct ct_index *x, uint64_t trace_id) {
    struct ct_chunk newest = {0}; // version 0: none
    for (size_t i = 0; i < x->count; i++)
        if (x->chunks[i].head.trace_id == trace_id &&
            (!newest.version || x->chunks[i].head.seq > newest.seq))
            newest = x->chunks[i].head;
    return newest;
}

int ct_journal_to_chunks(struct ct_journal_contents *j, struct ct_index *x, uint8_t **bytes,
                         size_t *size, struct ct_error *error) {
    const struct ct_journal_open *o = &j->open;
    struct conversion f = {
        .j = j, .seq = o->seq, .first_event = o->first_event, .lost = j->head.lost};
    *bytes = NULL;
    *size = 0;
    if (x->count && ct_index_trace_id(x) != j->head.trace_id)
        return ct_error_set(error, CT_EXIT_BAD_TRACE,
                            "%s: belongs to another trace (%016" PRIx64
                            "); remove it, or name its trace",
                            j->file.name, j->head.trace_id);
    if (!j->alive)
        remove_leftovers(j, x);
    remove_provisional(j, x);
    struct ct_chunk newest = find_newest(x, j->head.trace_id);
    append_memory_chunks(&f, x, &newest);
    const struct ct_chunk *last = newest.version ? &newest : NULL;
    const int has_open = last && last->seq >= o->seq; // the open chunk was written meanwhile
    uint64_t after_ns = o->drained_ns;
    j->replaces_cut = last ? last->seq + 1 >= o->seq : o->seq == 0;
    if (has_open) {
        f.seq = last->seq + 1;
        f.first_event = last->first_event + last->events;
        after_ns = last->t_last_ns > after_ns ? last->t_last_ns : after_ns;
    } else {
        append_open_chunk(&f);
    }
    append_rings(&f, after_ns, !j->alive && !(has_open && last->flags & CT_CHUNK_LAST));
    if (f.made && !j->alive)
        mark_sealed(&f);
    *bytes = f.out.at;
    *size = f.out.n;
    return 0;
}
