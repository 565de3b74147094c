// SPDX-License-Identifier: Apache-2.0
// From what a journal holds to chunks as a trace has them: those of the shelf, the open chunk as it is, and behind it, with dictionaries
// of their own, the events that were still in rings. The same journal always yields the same bytes, so that a
// seal that was interrupted can be done again.
#include <cutrace/format/encode.h>
#include <inttypes.h>

#include "base/heap.h"
#include "base/map.h"
#include "read/chunk_build.h"
#include "read/journal_read.h"
#include <cutrace/format/xxh64.h>

#define RECORDS 65536u         // of a chunk
#define RECORD_BYTES 320u      // of an encoded event, at most
#define DEFINITIONS (8u << 20) // of a chunk, then the next one begins
#define MODULES_MAX 4096u
#define TEXT_MAX 8192u

struct fold {
    struct ct_journal_contents *j;
    struct ct_buffer out;
    uint64_t seq, first_event; // of the next chunk
    size_t last_at;            // offset in `out` of the prefix of the last chunk that was made
    int made;                  // there is one
    // the dictionaries of the rings' events: what is known by its number in the process (a frame by its
    // word) has an id + 1 here (1: it has none)
    struct ct_map ids[CT_SECTION_THREADS + 1];
    uint32_t next[CT_SECTION_THREADS + 1];
    struct ct_buffer section[CT_SECTION_THREADS + 1];
    struct ct_journal_module *modules;
    uint32_t module_count;
    uint64_t stack_words; // of all stacks and texts that were read, which do not overlap
    // the tree of their frames: a node by its parent and its frame, and the two names of a text by its id
    struct ct_map nodes, texts;
    uint32_t next_node;
};

// ---- a chunk ---------------------------------------------------------------------------------------

static void put_chunk(struct fold *f, const struct ct_buffer *body, struct ct_chunk head) {
    head.version = CT_FORMAT_VERSION;
    head.trace_id = f->j->head.trace_id;
    f->last_at = f->out.n;
    f->made = 1;
    ct_chunk_put(&f->out, body, head);
    f->seq = head.seq + 1;
    f->first_event = head.first_event + head.events;
    f->j->folded += head.events;
}

// ---- the shelf -------------------------------------------------------------------------------------

// Takes the shelf over, but for the chunks that the trace has. `last` becomes the newest of all.
static void put_shelf(struct fold *f, const struct ct_index *x, struct ct_chunk *last) {
    struct ct_journal_contents *j = f->j;
    const struct ct_source source = {
        .fd = -1, .memory = j->shelf, .bytes = j->chunks_bytes, .file_bytes = j->chunks_bytes};
    struct ct_index shelf = {0};
    struct ct_map there = {0};
    for (size_t i = 0; i < x->count; i++)
        if (x->chunks[i].head.trace_id == j->head.trace_id)
            *ct_map_add(&there, x->chunks[i].head.seq + 1) = 1;
    ct_index_scan(&shelf, &source, 0, source.bytes);
    j->damaged += shelf.damages;
    f->out = (struct ct_buffer){j->shelf, 0, j->shelf_cap};
    j->shelf = NULL;
    for (size_t i = 0; i < shelf.count; i++) {
        const struct ct_index_chunk *c = &shelf.chunks[i];
        const uint64_t packed = c->head.body_bytes,
                       n = c->body - c->offset + packed + 8 + (-packed & 7);
        if (c->head.trace_id != j->head.trace_id || n > source.bytes - c->offset ||
            ct_map_find(&there, c->head.seq + 1))
            continue;
        memmove(f->out.at + f->out.n, f->out.at + c->offset,
                (size_t)n); // (its own bytes or earlier ones)
        f->out.n += (size_t)n;
        j->folded += c->head.events;
        if (!last->version || c->head.seq > last->seq)
            *last = c->head;
    }
    ct_map_free(&there);
    ct_index_free(&shelf);
}

// ---- the open chunk --------------------------------------------------------------------------------

static void put_columns(const struct ct_journal_contents *j, struct ct_buffer *body) {
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

static void put_open(struct fold *f) {
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
        put_columns(j, &body);
    put_chunk(f, &body,
              (struct ct_chunk){.flags = o->flags & ~(CT_CHUNK_LAST | CT_CHUNK_SEALED),
                                .seq = o->seq,
                                .dict_seq = o->dict_seq,
                                .first_event = o->first_event,
                                .events = o->events,
                                .t_first_ns = o->events ? o->t_first_ns : 0,
                                .t_last_ns = o->events ? o->t_last_ns : 0});
    free(body.at);
}

// ---- dictionaries ----------------------------------------------------------------------------------

static void define(struct fold *f, unsigned kind, const struct ct_out *payload,
                   const uint8_t *start) {
    const size_t n = (size_t)(payload->at - start);
    struct ct_buffer *b = &f->section[kind];
    struct ct_out o = {ct_buffer_reserve(b, n + 32), NULL, 0};
    o.end = o.at + n + 32;
    ct_put_varint(&o, ++f->next[kind]);
    ct_put_text(&o, (const char *)start, n);
    b->n = (size_t)(o.at - b->at);
}

static uint32_t string_of(struct fold *f, const char *text, size_t n) {
    uint8_t *start = (uint8_t *)(uintptr_t)text;
    const struct ct_out payload = {start + n, start + n, 0};
    if (!n)
        return 0;
    define(f, CT_SECTION_STRINGS, &payload, start);
    return f->next[CT_SECTION_STRINGS];
}

// The NUL-terminated text at an offset of the journal, of which no more than `most` bytes belong to the table.
static uint32_t text_at(struct fold *f, uint64_t offset, uint64_t most) {
    char text[TEXT_MAX];
    const size_t n =
        ct_source_read(&f->j->file, offset, text, most < sizeof text ? (size_t)most : sizeof text);
    return string_of(f, text, strnlen(text, n));
}

static uint32_t name_id(struct fold *f, uint32_t number) {
    const struct ct_journal *h = &f->j->head;
    uint64_t *id = ct_map_add(&f->ids[CT_SECTION_STRINGS], number);
    uint32_t at = 0;
    if (*id)
        return (uint32_t)*id - 1;
    *id = 1;
    if (!number || number >= h->names ||
        ct_source_read(&f->j->file, h->names_at + (uint64_t)number * 4, &at, 4) != 4 || !at ||
        at >= h->texts_bytes)
        return 0;
    const uint32_t string = text_at(f, h->texts_at + at, h->texts_bytes - at);
    *id = string + UINT64_C(1);
    return string;
}

static uint32_t thread_id(struct fold *f, uint32_t number) {
    const struct ct_journal *h = &f->j->head;
    uint64_t *id = ct_map_add(&f->ids[CT_SECTION_THREADS], number);
    struct ct_journal_thread t;
    uint8_t payload[32];
    if (*id)
        return (uint32_t)*id - 1;
    *id = 1;
    if (!number || !h->threads ||
        ct_source_read(&f->j->file, h->threads_at + number % h->threads * sizeof t, &t, sizeof t) !=
            sizeof t ||
        t.number != number)
        return 0;
    struct ct_out o = {payload, payload + sizeof payload, 0};
    ct_put_varint(&o, t.tid);
    ct_put_varint(&o, string_of(f, t.name, strnlen(t.name, sizeof t.name)));
    define(f, CT_SECTION_THREADS, &o, payload);
    *id = f->next[CT_SECTION_THREADS] + UINT64_C(1);
    return f->next[CT_SECTION_THREADS];
}

static void read_modules(struct fold *f) {
    const struct ct_journal *h = &f->j->head;
    uint32_t n = h->modules < h->modules_room ? h->modules : h->modules_room;
    n = n < MODULES_MAX ? n : MODULES_MAX;
    f->modules = ct_heap_resize(NULL, n, sizeof *f->modules);
    f->module_count =
        (uint32_t)(ct_source_read(&f->j->file, h->modules_at, f->modules, n * sizeof *f->modules) /
                   sizeof *f->modules);
}

static uint32_t module_id(struct fold *f, uint32_t i) {
    const struct ct_journal *h = &f->j->head;
    const struct ct_journal_module *m = &f->modules[i];
    uint64_t *id = ct_map_add(&f->ids[CT_SECTION_MODULES], i);
    uint8_t payload[64 + sizeof m->build_id];
    if (*id)
        return (uint32_t)*id - 1;
    const uint32_t path = m->path < h->module_texts_bytes ? text_at(f, h->module_texts_at + m->path,
                                                                    h->module_texts_bytes - m->path)
                                                          : 0;
    struct ct_out o = {payload, payload + sizeof payload, 0};
    ct_put_varint(&o, path);
    ct_put_varint(&o, m->base);
    ct_put_varint(&o, m->start);
    ct_put_varint(&o, m->end);
    ct_put_text(&o, (const char *)m->build_id,
                m->build_id_bytes <= sizeof m->build_id ? m->build_id_bytes : 0);
    define(f, CT_SECTION_MODULES, &o, payload);
    *id = f->next[CT_SECTION_MODULES] + UINT64_C(1);
    return f->next[CT_SECTION_MODULES];
}

// What lies at a place of the stacks' table: a stack's frames, or a text. Its words are put into `words`. Their number; 0: there
// is nothing that could be one.
static uint32_t words_at(struct fold *f, uint32_t place, uint64_t *words, uint32_t most) {
    const struct ct_journal *h = &f->j->head;
    struct ct_journal_stack s;
    const uint64_t at = (uint64_t)place * 8,
                   words_at = at + offsetof(struct ct_journal_stack, frame);
    if (!place || words_at > h->stacks_bytes ||
        ct_source_read(&f->j->file, h->stacks_at + at, &s, sizeof s) != sizeof s || !s.hash ||
        s.frames > most || (f->stack_words += 3 + s.frames) > h->stacks_bytes / 8 ||
        s.frames * UINT64_C(8) > h->stacks_bytes - words_at ||
        ct_source_read(&f->j->file, h->stacks_at + words_at, words, s.frames * 8) != s.frames * 8)
        return 0;
    return s.frames;
}

// The ids of a text's two names, function << 32 | file.
static uint64_t text_id(struct fold *f, uint32_t place) {
    uint64_t words[1 + (2 * CT_CODE_NAME_MAX_BYTES + 7) / 8] = {0};
    const uint64_t *known = ct_map_find(&f->texts, place);
    if (known)
        return *known;
    struct ct_code_name t;
    uint64_t id = 0;
    if (!ct_code_name_parse(words, words_at(f, place, words, sizeof words / sizeof *words), &t)) {
        id = (uint64_t)string_of(f, t.function, t.function_bytes) << 32;
        id |= string_of(f, t.file, t.file_bytes);
    }
    *ct_map_add(&f->texts, place) = id;
    return id;
}

static void put_native(struct fold *f, struct ct_out *o, uint64_t pc) {
    uint32_t module = 0;
    uint64_t base = pc;
    for (uint32_t i = f->module_count; i-- > 0;) // later ones replace earlier ones
        if (pc - 1 >= f->modules[i].start && pc - 1 < f->modules[i].end) {
            module = module_id(f, i);
            base = f->modules[i].base;
            break;
        }
    ct_put_varint(o, CT_FRAME_NATIVE);
    ct_put_varint(o, pc);
    ct_put_varint(o, module);
    ct_put_varint(o, pc - base);
    ct_put_varint(o, 0); // symbols are the running process's to look up
    ct_put_varint(o, 0);
}

static uint32_t frame_id(struct fold *f, uint64_t word) {
    uint64_t *id = ct_map_add(&f->ids[CT_SECTION_FRAMES], word);
    uint8_t payload[64];
    if (*id)
        return (uint32_t)*id - 1;
    *id = f->next[CT_SECTION_FRAMES] + UINT64_C(2);
    struct ct_out o = {payload, payload + sizeof payload, 0};
    if (ct_frame_word_is_native(word)) {
        put_native(f, &o, word);
    } else if (ct_frame_word_text(word)) {
        const uint64_t text = text_id(f, ct_frame_word_text(word));
        ct_put_varint(&o, CT_FRAME_PYTHON);
        ct_put_varint(&o, text >> 32);
        ct_put_varint(&o, (uint32_t)text);
        ct_put_varint(&o, ct_frame_word_line(word));
    } else {
        ct_put_varint(&o, CT_FRAME_END);
        ct_put_varint(&o, ct_frame_word_line(word));
    }
    define(f, CT_SECTION_FRAMES, &o, payload);
    return f->next[CT_SECTION_FRAMES];
}

// The frames, outermost first, of which the tree does not have all yet.
static void put_branch(struct fold *f, const uint32_t *frames, uint32_t n) {
    static uint8_t payload[32 + CT_MAX_STACK * 10];
    struct ct_out o = {payload, payload + sizeof payload, 0};
    uint64_t parent = 0, before = 0;
    uint32_t have = 0;
    for (const uint64_t *known; have < n; have++, parent = *known)
        if (!(known = ct_map_find(&f->nodes, parent << 32 | frames[have])))
            break;
    ct_put_varint(&o, parent);
    ct_put_varint(&o, n - have);
    if (have < n)
        ct_put_varint(&o, f->next_node + 1u);
    for (uint32_t i = have; i < n; i++) {
        ct_put_varint(&o, ct_zigzag(frames[i] - before));
        before = frames[i];
        *ct_map_add(&f->nodes, parent << 32 | frames[i]) = ++f->next_node;
        parent = f->next_node;
    }
    define(f, CT_SECTION_STACKS, &o, payload);
}

static uint32_t stack_id(struct fold *f, uint32_t number) {
    uint64_t words[CT_MAX_STACK];
    uint32_t frames[CT_MAX_STACK];
    const uint64_t *known = ct_map_find(&f->ids[CT_SECTION_STACKS], number);
    if (known)
        return (uint32_t)*known - 1;
    *ct_map_add(&f->ids[CT_SECTION_STACKS], number) = 1;
    const uint32_t n = words_at(f, number, words, CT_MAX_STACK);
    if (!n)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        frames[n - 1 - i] = frame_id(f, words[i]);
    put_branch(f, frames, n);
    *ct_map_add(&f->ids[CT_SECTION_STACKS], number) = f->next[CT_SECTION_STACKS] + UINT64_C(1);
    return f->next[CT_SECTION_STACKS];
}

// ---- events that were still in rings ---------------------------------------------------------------

// What is not known is absent.
static void translate(struct ct_event *e, uint64_t bit, uint32_t *value, uint32_t id) {
    if (!(e->present & bit))
        return;
    *value = id;
    if (!id)
        e->present &= ~bit;
}

static void take(struct fold *f, const struct ct_journal_record *p, struct ct_event *e) {
    memset(e, 0, sizeof *e);
    memcpy(&e->present, p->record, sizeof e->present);
    memcpy(e, p->record, ct_journal_record_bytes(e->present));
    translate(e, CT_BIT(api), &e->api, CT_HAS(e, api) ? name_id(f, e->api) : 0);
    translate(e, CT_BIT(text), &e->text, CT_HAS(e, text) ? name_id(f, e->text) : 0);
    translate(e, CT_BIT(thread), &e->thread, CT_HAS(e, thread) ? thread_id(f, e->thread) : 0);
    translate(e, CT_BIT(stack), &e->stack, CT_HAS(e, stack) ? stack_id(f, e->stack) : 0);
}

static size_t definitions(const struct fold *f) {
    size_t n = 0;
    for (unsigned k = 0; k <= CT_SECTION_THREADS; k++)
        n += f->section[k].n;
    return n;
}

static void put_records(struct fold *f, const struct ct_event *events, uint32_t n,
                        uint64_t dict_seq) {
    struct ct_chunk head = {.seq = f->seq, .dict_seq = dict_seq, .first_event = f->first_event};
    struct ct_buffer body = {0};
    for (unsigned k = CT_SECTION_INFO; k <= CT_SECTION_THREADS; k++)
        if (f->section[k].n) {
            ct_chunk_build_section(&body, k, f->section[k].at, f->section[k].n);
            f->section[k].n = 0;
        }
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
    put_chunk(f, &body, head);
    free(body.at);
}

static struct ct_event lost_event(struct fold *f, const struct ct_journal_loss *loss, uint64_t after_ns) {
    struct ct_event e = {0};
    CT_SET(&e, t_ns, loss->t_ns > after_ns ? loss->t_ns : after_ns);
    CT_SET(&e, op, CT_OP_LOST);
    CT_SET(&e, count, loss->count);
    CT_SET(&e, thread, loss->thread);
    translate(&e, CT_BIT(thread), &e.thread, thread_id(f, e.thread));
    return e;
}

// All of them, and what was lost behind them; with the last chunk the facts about the fold.
static void put_pending(struct fold *f, const struct ct_buffer *facts, uint64_t after_ns) {
    struct ct_journal_contents *j = f->j;
    struct ct_event *events = ct_heap_resize(NULL, RECORDS, sizeof *events);
    const uint64_t dict_seq = f->seq;
    uint32_t n = 0;
    uint64_t last_ns = after_ns;
    read_modules(f);
    for (size_t i = 0; i < j->pending_count + j->loss_count; i++) {
        if (i >= j->pending_count) {
            events[n++] = lost_event(f, &j->losses[i - j->pending_count], last_ns);
        } else if (j->pending[i].t_ns > after_ns) {
            take(f, &j->pending[i], &events[n++]);
        }
        last_ns = n && events[n - 1].t_ns > last_ns ? events[n - 1].t_ns : last_ns;
        if (n < RECORDS && definitions(f) < DEFINITIONS)
            continue;
        put_records(f, events, n, dict_seq);
        n = 0;
    }
    ct_buffer_append(&f->section[CT_SECTION_INFO], facts->at, facts->n);
    if (n || facts->n)
        put_records(f, events, n, dict_seq);
    free(events);
}

// ---- the whole -------------------------------------------------------------------------------------

// Facts for INFO: that a sealed trace, too, tells what was torn.
static void put_facts(const struct ct_journal_contents *j, struct ct_buffer *facts) {
    const struct {
        const char *key;
        uint64_t value;
    } all[] = {{"journal.torn_events", j->torn}, {"journal.damaged_rings", j->damaged}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char value[32];
        const int n = snprintf(value, sizeof value, "%" PRIu64, all[i].value);
        struct ct_out o = {ct_buffer_reserve(facts, 128), NULL, 0};
        o.end = o.at + 128;
        ct_put_text(&o, all[i].key, strlen(all[i].key));
        ct_put_text(&o, value, (size_t)n);
        facts->n = (size_t)(o.at - facts->at);
    }
}

static void seal(struct fold *f) {
    struct ct_chunk head;
    uint8_t *at = f->out.at + f->last_at + 8;
    memcpy(&head, at, sizeof head);
    head.flags |= CT_CHUNK_SEALED;
    head.checksum = ct_xxh64(&head, offsetof(struct ct_chunk, checksum));
    memcpy(at, &head, sizeof head);
}

// What a seal wrote that was interrupted: chunks behind the open one, or in its place if that is empty.
static int is_leftover(const struct ct_journal_contents *j, const struct ct_chunk *c) {
    const int instead = c->seq == j->open.seq && !j->stream_at[CT_STREAMS] &&
                        c->dict_seq == c->seq && !(c->flags & (CT_CHUNK_LAST | CT_CHUNK_RESTART));
    return c->trace_id == j->head.trace_id && (c->seq > j->open.seq || instead);
}

// They will be written again, in the same place.
static void take_leftovers(struct ct_journal_contents *j, struct ct_index *x) {
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

int ct_journal_to_chunks(struct ct_journal_contents *j, struct ct_index *x, uint8_t **bytes, size_t *size,
                    struct ct_error *error) {
    const struct ct_journal_open *o = &j->open;
    struct ct_chunk newest = {0};
    struct fold f = {.j = j, .seq = o->seq, .first_event = o->first_event};
    struct ct_buffer facts = {0};
    *bytes = NULL;
    *size = 0;
    if (x->count && ct_index_trace_id(x) != j->head.trace_id)
        return ct_error_set(error, CT_EXIT_BAD_TRACE,
                       "%s: belongs to another trace (%016" PRIx64
                       "); remove it, or name its trace",
                       j->file.name, j->head.trace_id);
    if (!j->alive)
        take_leftovers(j, x);
    for (size_t i = 0; i < x->count; i++)
        if (x->chunks[i].head.trace_id == j->head.trace_id &&
            (!newest.version || x->chunks[i].head.seq > newest.seq))
            newest = x->chunks[i].head;
    put_shelf(&f, x, &newest);
    const struct ct_chunk *last = newest.version ? &newest : NULL; // (0 is no version)
    uint64_t after_ns = o->drained_ns;
    j->mends = last ? last->seq + 1 >= o->seq : o->seq == 0;
    if (!last || last->seq < o->seq) {
        put_open(&f);
    } else {
        f.seq = last->seq + 1;
        f.first_event = last->first_event + last->events;
        after_ns = last->t_last_ns > after_ns ? last->t_last_ns : after_ns;
    }
    if (!j->alive && !(last && last->seq >= o->seq && last->flags & CT_CHUNK_LAST))
        put_facts(j, &facts);
    put_pending(&f, &facts, after_ns);
    if (f.made && !j->alive)
        seal(&f);
    *bytes = f.out.at;
    *size = f.out.n;
    for (unsigned k = 0; k <= CT_SECTION_THREADS; k++) {
        ct_map_free(&f.ids[k]);
        free(f.section[k].at);
    }
    ct_map_free(&f.nodes);
    ct_map_free(&f.texts);
    free(f.modules);
    free(facts.at);
    return 0;
}
