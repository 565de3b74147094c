// SPDX-License-Identifier: Apache-2.0
// Reads a trace twice: first the dictionaries and the corrections (AMEND records) of all chunks,
// then the events. So a frame has its symbol and an event its final result, wherever in the file
// these are.
#include "read/trace.h"

#include <cutrace/format/assert.h>
#include <cutrace/format/bytes.h>
#include <cutrace/model/checkpoint.h>
#include <cutrace/model/failures.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "read/bounds.h"
#include "read/journal_read.h"
#include "read/unpack.h"

// ---- chunks -----------------------------------------------------------------------------------

static int mark_damaged(struct ct_trace *t, struct ct_index_chunk *c, const char *what) {
    if (!c->bad)
        ct_index_add_damage(&t->index, c->offset, c->body + c->head.body_bytes - c->offset, what);
    c->bad = 1;
    return -1;
}

static void mark_partial(struct ct_trace *t, struct ct_index_chunk *c, const char *what) {
    if (!c->partial)
        ct_index_add_damage(&t->index, c->offset, c->body + c->head.body_bytes - c->offset, what);
    c->partial = 1;
}

static const char malformed[] = "chunk with malformed events";

// What a body has shown: 0, or -1 with the chunk marked as damaged.
static int note_body(struct ct_trace *t, struct ct_index_chunk *c, const char *damage) {
    if (damage)
        return mark_damaged(t, c, damage);
    if (t->progress)
        t->progress(t->progress_user, c->body + c->head.body_bytes, t->source.bytes);
    return 0;
}

// Decompresses the body of a chunk. 0, or -1 with the chunk marked as damaged.
static int read_body(struct ct_trace *t, struct ct_index_chunk *c, struct ct_in *body) {
    return c->bad ? -1 : note_body(t, c, ct_unpacker_read(&t->unpacker, &t->source, c, body));
}

int ct_trace_read_body(struct ct_trace *t, size_t chunk, struct ct_in *body) {
    return read_body(t, &t->index.chunks[chunk], body);
}

int ct_trace_define(struct ct_trace *t, const struct ct_index_chunk *c, struct ct_in body) {
    unsigned kind, kinds = 0;
    struct ct_in section, at = body;
    int more;
    ct_definitions_set_generation(&t->definitions, c->head.dict_seq);
    while ((more = ct_section_next(&at, &kind, &section)) > 0)
        if (kind < CT_SECTION_EVENTS)
            kinds |= 1u << kind;
    if (more < 0)
        return -1;
    for (unsigned k = CT_SECTION_INFO; k < CT_SECTION_EVENTS; k++) {
        at = body;
        while (kinds >> k & 1 && ct_section_next(&at, &kind, &section) > 0)
            if (kind == k &&
                ct_definitions_read_section(&t->definitions, c->head.version, k, section))
                return -1;
    }
    return 0;
}

int ct_trace_read_chunk(struct ct_trace *t, size_t chunk, struct ct_in *body) {
    const struct ct_index_chunk *c = &t->index.chunks[chunk];
    return ct_trace_read_body(t, chunk, body) || ct_trace_define(t, c, *body) ? -1 : 0;
}

// Durations and stacks are sampled for frees that succeed: they are many, and only a list of events
// shows them (`details`).
static void add_amend(struct ct_trace *t, struct ct_event *e) {
    if (CT_HAS(e, thread))
        e->thread = ct_definitions_id(&t->definitions, CT_SECTION_THREADS, e->thread);
    if (CT_HAS(e, stack))
        e->stack = ct_definitions_id(&t->definitions, CT_SECTION_STACKS, e->stack);
    if (!t->details)
        e->present &= ~(CT_BIT(duration_ns) | CT_BIT(stack));
    ct_amends_add(&t->amends, e);
}

static int read_amends(struct ct_trace *t, struct ct_in body) {
    struct ct_in section;
    unsigned kind;
    int more;
    while (ct_section_next(&body, &kind, &section) > 0) {
        struct ct_event e;
        if (kind != CT_SECTION_EVENTS)
            continue;
        if (ct_decoder_open(&t->columns, section))
            return -1;
        while ((more = ct_decoder_next(&t->columns, &e)) > 0)
            if (CT_HAS(&e, op) && e.op == CT_OP_AMEND)
                add_amend(t, &e);
        if (more < 0)
            return -1;
    }
    return 0;
}

// Notes which part of a checkpoint the chunk has, and stores the newest history.
static int read_state(struct ct_trace *t, struct ct_index_chunk *c, struct ct_in body) {
    struct ct_in section;
    struct ct_history *read;
    unsigned kind;
    while (ct_section_next(&body, &kind, &section) > 0) {
        if (kind == CT_SECTION_CHECKPOINT) {
            c->has_checkpoint = 1;
            c->checkpoint |= (int)(ct_get_varint(&section) & 0xFF);
            if (section.bad)
                return -1;
        } else if (kind == CT_SECTION_HISTORY) {
            read = ct_heap_resize(NULL, 1, sizeof *read);
            if (ct_history_decode(read, section)) {
                free(read);
                return -1;
            }
            free(t->history);
            t->history = read;
            t->history_before = c->head.first_event;
        }
    }
    return 0;
}

// Counts the records of a body. Each has a byte at least, whatever their number is said to be. (A
// malformed body is found elsewhere.)
static void count_records(struct ct_trace *t, struct ct_in body) {
    struct ct_in section;
    unsigned kind;
    while (ct_section_next(&body, &kind, &section) > 0) {
        if (kind == CT_SECTION_CHECKPOINT)
            (void)ct_get_varint(&section);
        else if (kind != CT_SECTION_EVENTS)
            continue;
        const uint64_t count = ct_get_varint(&section),
                       bytes = (uint64_t)(section.end - section.at);
        t->records += count < bytes ? count : bytes;
    }
}

static const char *look_for_damage(struct ct_trace *t, struct ct_index_chunk *c,
                                   struct ct_in body) {
    count_records(t, body);
    if (t->records > ct_bounds_records(t->source.bytes))
        return "chunk with more records than a recorder puts into a file of this size: do not "
               "trust it";
    if (!ct_trace_define(t, c, body) && !read_state(t, c, body))
        return NULL;
    return t->definitions.is_exceeded ? "chunk with more definitions than a recorder puts into a "
                                        "file of this size: do not trust it"
                                      : "chunk with a malformed body";
}

static void open_body(struct ct_trace *t, struct ct_index_chunk *c, struct ct_in body) {
    const char *damage = look_for_damage(t, c, body);
    if (damage)
        mark_damaged(t, c, damage);
    else if (c->head.flags & CT_CHUNK_AMENDS && read_amends(t, body))
        mark_partial(t, c, malformed);
}

void ct_trace_open_chunk(struct ct_trace *t, size_t chunk) {
    struct ct_index_chunk *c = &t->index.chunks[chunk];
    struct ct_in body;
    if (!read_body(t, c, &body))
        open_body(t, c, body);
}

static void open_unpacked(void *user, size_t chunk, const struct ct_unpacked *u) {
    struct ct_trace *t = user;
    struct ct_index_chunk *c = &t->index.chunks[chunk];
    if (u->is_left)
        ct_trace_open_chunk(t, chunk);
    else if (!note_body(t, c, u->damage))
        open_body(t, c, u->body);
}

// ---- the trace as a whole -------------------------------------------------------------------

// Decides which checkpoints restore the state: those after a gap, until the state is known in full.
// A trace without gaps needs none.
static void plan_state(struct ct_trace *t) {
    int exact = 1, coarse = 0, restoring = 0, lost = 0, known = 1;
    for (size_t i = 0; i < t->index.count; i++) {
        struct ct_index_chunk *c = &t->index.chunks[i];
        lost |= c->gap;
        if (c->bad) {
            lost = 1;
            continue;
        }
        c->reset = i && c->overwritten;
        c->loses = known && lost;
        if (lost)
            exact = restoring = lost = known = 0;
        if (!exact && c->checkpoint & CT_CHECKPOINT_FIRST &&
            (!coarse || !(c->checkpoint & CT_CHECKPOINT_INEXACT))) {
            c->reset = 1;
            restoring = 1;
            coarse = c->checkpoint & CT_CHECKPOINT_INEXACT;
        }
        if (c->reset)
            known = 0;
        c->known = known;
        c->restores = restoring && c->has_checkpoint;
        if (!c->restores || !(c->checkpoint & CT_CHECKPOINT_LAST))
            continue;
        c->completes = c->known = known = 1;
        restoring = 0;
        exact = !(c->checkpoint & CT_CHECKPOINT_INEXACT);
        if (exact)
            t->exact_from_ns = ct_index_first_ns(&t->index, i);
        if (t->exact_from_ns == UINT64_MAX) // no event since then
            t->exact_from_ns = ct_index_last_ns(&t->index, i);
    }
    t->exact = exact;
}

static void count_events(struct ct_trace *t) {
    uint64_t expected = 0;
    int first = 1;
    for (size_t i = 0; i < t->index.count; i++) {
        const struct ct_index_chunk *c = &t->index.chunks[i];
        if (c->bad)
            continue;
        if (first)
            t->first_event = c->head.first_event;
        if (c->head.first_event > expected) {
            const int overwritten = first || c->overwritten;
            *(overwritten ? &t->overwritten_events : &t->missing_events) +=
                c->head.first_event - expected;
            if (overwritten)
                t->overwritten_before = c->head.first_event;
        }
        first = 0;
        expected = c->head.first_event + c->head.events;
        t->events += c->head.events;
        if (c->head.events && c->head.t_last_ns >= c->head.t_first_ns) {
            if (!t->t_first_ns || c->head.t_first_ns < t->t_first_ns)
                t->t_first_ns = c->head.t_first_ns;
            if (c->head.t_last_ns > t->t_last_ns)
                t->t_last_ns = c->head.t_last_ns;
        }
    }
}

void ct_trace_summarize_chunks(struct ct_trace *t) {
    count_events(t);
    plan_state(t);
    ct_seek_points_find(&t->seek_points, &t->index);
    const struct ct_index_chunk *last =
        t->index.count ? &t->index.chunks[t->index.count - 1] : NULL;
    t->ended = last && !last->bad && last->head.flags & CT_CHUNK_LAST;
    t->sealed = last && !last->bad && last->head.flags & CT_CHUNK_SEALED && !t->index.cut;
    t->running = t->journal_found > 0 && t->journal.alive && !t->ended;
    t->incomplete = !t->ended && !t->sealed && !t->running;
}

void ct_trace_summarize_facts(struct ct_trace *t) {
    (void)ct_definitions_info_number(&t->definitions, "journal.torn_events", &t->torn);
    uint64_t was_missing = 0;
    (void)ct_definitions_info_number(&t->definitions, "trim.events_before", &t->trimmed_before);
    (void)ct_definitions_info_number(&t->definitions, "trim.events_after", &t->trimmed_after);
    (void)ct_definitions_info_number(&t->definitions, "trim.end_missing", &was_missing);
    t->end_was_missing = was_missing != 0;
    // Time 0 is the start of the process. The trace reports it on the clock of the events; ignore
    // an implausible value.
    const uint64_t year = UINT64_C(31556952000000000);
    if (!ct_definitions_info_number(&t->definitions, "process.start_ns", &t->start_ns) ||
        (t->t_first_ns && (t->start_ns > t->t_first_ns || t->t_first_ns - t->start_ns > 20 * year)))
        t->start_ns = t->t_first_ns;
}

int ct_trace_is_intact(const struct ct_trace *t) {
    return (t->ended || t->sealed) && !t->index.damages && !t->index.missing && !t->missing_events;
}

int ct_trace_is_complete(const struct ct_trace *t) {
    return ct_trace_is_intact(t) && t->index.chunks[0].head.seq == 0 && !t->overwritten_events;
}

int ct_trace_has_every_event(const struct ct_trace *t, uint64_t lost) {
    return ct_trace_is_complete(t) && !lost && !t->torn;
}

uint64_t ct_trace_append_offset(const struct ct_trace *t) {
    uint64_t at = t->source.file_bytes;
    if ((t->index.cut || t->index.cut_replaced) && t->index.cut_at < at)
        at = t->index.cut_at;
    if (t->journal.append_at && t->journal.append_at < at)
        at = t->journal.append_at;
    return at;
}

// Appends the chunks that only the journal has.
static void append_journal(struct ct_trace *t) {
    struct ct_index *x = &t->index;
    uint8_t *bytes;
    size_t size;
    if (t->journal_found <= 0)
        return;
    if (t->sealing)
        t->journal.alive = 0;
    if (ct_journal_to_chunks(&t->journal, x, &bytes, &size, &t->journal_error)) {
        t->journal_found = -1;
        return;
    }
    if (!bytes)
        return;
    if (t->journal.replaces_cut)
        ct_index_forgive_cut(x);
    ct_source_append(&t->source, bytes, size, CT_CHUNK_ALIGN);
    ct_index_scan(x, &t->source, t->source.added_at, t->source.bytes);
}

void ct_trace_begin_bodies(struct ct_trace *t) {
    ct_unpacker_begin(&t->unpacker);
    t->columns.memory = ct_heap_resize(NULL, ct_decoder_memory_bytes(), 1);
}

// Whether what is known begins anew with a chunk.
static int begins_anew(const struct ct_index *x, size_t i) {
    const struct ct_index_chunk *c = &x->chunks[i];
    return c->gap || c->reset || (i && !c[-1].known);
}

// Reads the time of a chunk's first event. Returns 0 if it has none.
static int read_first_ns(struct ct_trace *t, size_t chunk, uint64_t *t_ns) {
    struct ct_in body, section;
    struct ct_event e = {.t_ns = 0};
    unsigned kind;
    if (ct_trace_read_body(t, chunk, &body))
        return 0;
    while (ct_section_next(&body, &kind, &section) > 0) {
        if (kind != CT_SECTION_EVENTS || ct_decoder_open(&t->columns, section))
            continue;
        while (ct_decoder_next(&t->columns, &e) > 0)
            if (CT_HAS(&e, t_ns) && !(CT_HAS(&e, op) && e.op == CT_OP_AMEND)) {
                *t_ns = e.t_ns;
                return 1;
            }
    }
    return 0;
}

// A chunk's prefix has the exact time of its first event, the record may have it rounded down. A
// gap ends where the records begin, as all who compare with the times of events have to know.
static void round_gaps(struct ct_trace *t) {
    uint64_t first_ns;
    for (size_t i = 0; i < t->index.count; i++) {
        struct ct_index_chunk *c = &t->index.chunks[i];
        if (!c->bad && (c->loses || begins_anew(&t->index, i)) && read_first_ns(t, i, &first_ns) &&
            first_ns < c->head.t_first_ns)
            c->rounded_ns = c->head.t_first_ns - first_ns;
    }
}

int ct_trace_open_source(struct ct_trace *t, struct ct_error *error) {
    ct_definitions_init(&t->definitions);
    ct_trace_begin_bodies(t);
    ct_index_scan(&t->index, &t->source, 0, t->source.bytes);
    append_journal(t);
    t->definitions.most_bytes = ct_bounds_definition_bytes(t->source.bytes);
    if (ct_index_sort(&t->index, &t->source, error))
        return -1;
    ct_unpack_in_order(&t->source, &t->index, open_unpacked, t);
    ct_amends_sort(&t->amends);
    ct_definitions_finish(&t->definitions);
    ct_trace_summarize_chunks(t);
    ct_trace_summarize_facts(t);
    round_gaps(t);
    size_t readable = 0;
    for (size_t i = 0; i < t->index.count; i++)
        readable += !t->index.chunks[i].bad;
    if (!readable)
        return ct_error_set(error, CT_EXIT_BAD_TRACE,
                            "%s: offset %" PRIu64 ": %s; no chunk is readable", t->source.name,
                            t->index.damage[0].offset, t->index.damage[0].what);
    ct_trace_rewind(t);
    return 0;
}

int ct_trace_open(struct ct_trace *t, const char *path, struct ct_error *error) {
    const struct ct_trace blank = {.details = t->details,
                                   .no_journal = t->no_journal,
                                   .sealing = t->sealing,
                                   .progress = t->progress,
                                   .progress_user = t->progress_user,
                                   .journal.file.fd = -1};
    *t = blank;
    // Read the journal first: what moves from it to the trace meanwhile is then in the trace.
    if (!t->no_journal && strcmp(path, "-") != 0 && !ct_source_is_named(path))
        t->journal_found = ct_journal_read_trace(&t->journal, path, &t->journal_error);
    if (ct_source_open(&t->source, path, error)) {
        if (t->journal_found <= 0 || access(path, F_OK) == 0)
            return -1;
        ct_source_open_memory(&t->source, path, NULL,
                              0); // the disk was full at the first chunk
    }
    return ct_trace_open_source(t, error);
}

int ct_trace_open_files(struct ct_trace *t, const struct ct_trace_files *files,
                        struct ct_error *error) {
    struct stat st;
    *t = (struct ct_trace){.source = {.name = files->name, .fd = files->trace},
                           .journal.file.fd = -1};
    if (files->journal >= 0) {
        const size_t n = strlen(files->name) + sizeof CT_JOURNAL_SUFFIX;
        t->journal.path = ct_heap_resize(NULL, n, 1);
        (void)snprintf(t->journal.path, n, "%s%s", files->name, CT_JOURNAL_SUFFIX);
        const uint64_t bytes = fstat(files->journal, &st) == 0 ? (uint64_t)st.st_size : 0;
        t->journal.file = (struct ct_source){
            .name = t->journal.path, .fd = files->journal, .bytes = bytes, .file_bytes = bytes};
        t->journal_found = ct_journal_read_source(&t->journal, &t->journal_error);
    }
    if (files->trace < 0)
        ct_source_open_memory(&t->source, files->name, NULL, 0);
    else if (fstat(files->trace, &st) == 0) // as long as it is by now, with what left the journal
        t->source.file_bytes = t->source.bytes = (uint64_t)st.st_size;
    return ct_trace_open_source(t, error);
}

void ct_trace_rewind(struct ct_trace *t) {
    t->chunk = (size_t)-1;
    t->rest = t->body_of_chunk = (struct ct_in){NULL, NULL, 0};
    t->in_events = t->in_checkpoint = 0;
    t->checkpoint_done = 1;
    t->last_ns = t->outside = 0;
    t->has_sought = 0;
    t->definitions.generation = UINT64_MAX;
}

void ct_trace_seek(struct ct_trace *t, const struct ct_seek_point *point) {
    ct_trace_rewind(t);
    CT_ASSERT(point->first && point->last < t->index.count);
    t->chunk = point->first - 1;
    t->has_sought = 1;
    t->sought = *point;
}

// Whether the current chunk has a part of the checkpoint that was sought.
static int is_sought(const struct ct_trace *t) {
    return t->has_sought && t->chunk >= t->sought.first && t->chunk <= t->sought.last;
}

static int chunk_resets(const struct ct_trace *t) {
    return t->index.chunks[t->chunk].reset || (t->has_sought && t->chunk == t->sought.first);
}

static int chunk_completes(const struct ct_trace *t) {
    return t->index.chunks[t->chunk].completes || (t->has_sought && t->chunk == t->sought.last);
}

// Opens the next section of a kind in this chunk. 0: there is none.
static int open_section(struct ct_trace *t, unsigned wanted) {
    struct ct_in section;
    unsigned kind;
    while (ct_section_next(&t->rest, &kind, &section) > 0) {
        if (kind != wanted)
            continue;
        if (kind == CT_SECTION_CHECKPOINT)
            (void)ct_get_varint(&section);
        if (ct_decoder_open(&t->columns, section) == 0)
            return 1;
        mark_partial(t, &t->index.chunks[t->chunk], malformed);
        break;
    }
    return 0;
}

// Opens the next chunk. 0 at the end of the trace.
static int open_next_chunk(struct ct_trace *t) {
    const size_t end = t->end ? t->end : t->index.count;
    do {
        if (++t->chunk >= end)
            return 0;
    } while (read_body(t, &t->index.chunks[t->chunk], &t->body_of_chunk));
    const struct ct_index_chunk *c = &t->index.chunks[t->chunk];
    t->rest = t->body_of_chunk;
    ct_trace_define(t, c, t->rest);
    t->next_number = c->head.first_event;
    ct_size_bounds_begin(&t->sizes, t->index.count);
    t->checkpoint_done = !c->restores && !is_sought(t);
    return 1;
}

// Whether an operation allocates memory or addresses, or imports them: others that ask for
// something look at what is there, or name it once more. (By constants, as it is asked of each
// event.)
static int op_acquires(uint32_t op) {
#define CT_OP_DOES(OP, MAKES, ENDS, ASKS) \
    | (uint64_t)(CT_REQUEST_##ASKS != CT_REQUEST_NONE) << CT_OP_##OP
    const uint64_t asking = 0
#include <cutrace/model/ops.def>
        ;
    const uint64_t looking = UINT64_C(1) << CT_OP_RETAIN | UINT64_C(1) << CT_OP_EXPORT |
                             UINT64_C(1) << CT_OP_MEMORY_SAMPLE;
    _Static_assert(CT_OPS_END <= 64, "a bit each");
    return op < CT_OPS_END && ((asking & ~looking) >> op & 1);
}

static void resolve_texts(const struct ct_definitions *n, struct ct_event *e) {
    if (CT_HAS(e, text))
        e->text = ct_definitions_id(n, CT_SECTION_STRINGS, e->text);
    if (CT_HAS(e, domain))
        e->domain = ct_definitions_id(n, CT_SECTION_STRINGS, e->domain);
    if (CT_HAS(e, category))
        e->category = ct_definitions_id(n, CT_SECTION_STRINGS, e->category);
}

CT_HOT void resolve_ids(const struct ct_trace *t, struct ct_event *e) {
    const struct ct_definitions *n = &t->definitions;
    if (CT_HAS(e, thread))
        e->thread = ct_definitions_id(n, CT_SECTION_THREADS, e->thread);
    if (CT_HAS(e, api))
        e->api = ct_definitions_id(n, CT_SECTION_STRINGS, e->api);
    if (CT_HAS(e, stack))
        e->stack = ct_definitions_id(n, CT_SECTION_STACKS, e->stack);
    if (e->present & (CT_BIT(text) | CT_BIT(domain) | CT_BIT(category)))
        resolve_texts(n, e);
    if (!CT_HAS(e, op))
        e->op = 0;
}

// Without a stack, shows the name of the thread: those of PyTorch and NCCL say what they do.
static void set_thread_stack(struct ct_trace *t, struct ct_event *e) {
    if (CT_HAS(e, stack) || !CT_HAS(e, thread))
        return;
    const uint32_t stack = ct_definitions_thread_stack(&t->definitions, e->thread);
    if (stack)
        CT_SET(e, stack, stack);
}

uint64_t ct_trace_count_unrecorded(const struct ct_trace *t, uint64_t counted) {
    uint64_t total = 0;
    (void)ct_definitions_info_number(&t->definitions, "recorder.lost_events", &total);
    return total > counted ? total : counted;
}

uint64_t ct_trace_count_lost(const struct ct_trace *t, uint64_t counted) {
    return ct_trace_count_unrecorded(t, counted) + t->missing_events;
}

// How much earlier than it was the last event's time may be, exclusively: a time may be rounded
// down (FORMAT.md, section 3). 1: it is exact.
static uint64_t get_time_span_ns(const struct ct_trace *t) {
    return t->columns.exact ? 1 : t->columns.tick_ns;
}

CT_HOT void bound_sizes(struct ct_trace *t, struct ct_event *e) {
    if (ct_size_bounds_apply(&t->sizes, e))
        mark_partial(t, &t->index.chunks[t->chunk], "chunk with sizes that cannot be");
}

// Whether an event lies outside the times of its chunk, which are exact. Its own time may be
// rounded down, also that of the first event, if an AMEND is before it.
static int is_outside(const struct ct_trace *t, const struct ct_event *e) {
    const struct ct_chunk *head = &t->index.chunks[t->chunk].head;
    if (e->t_ns > head->t_last_ns)
        return 1;
    return e->t_ns < head->t_first_ns && head->t_first_ns - e->t_ns >= get_time_span_ns(t);
}

static void complete_event(struct ct_trace *t, struct ct_event *e) {
    resolve_ids(t, e);
    if (!CT_HAS(e, t_ns))
        e->t_ns = t->last_ns;
    t->last_ns = e->t_ns;
    if (t->details)
        t->outside += (uint64_t)is_outside(t, e);
    // An event whose time was rounded down is alone in its tick (FORMAT.md, section 3), so that a
    // record with any time of this tick corrects it.
    if (t->amends.count)
        ct_amends_apply(&t->amends, e, get_time_span_ns(t));
    bound_sizes(t, e);
    if (op_acquires(e->op) || ct_event_is_oom(e))
        set_thread_stack(t, e);
}

// An object of a checkpoint is encoded as the event that created it, with the number of that event
// as a field.
static void complete_object(struct ct_trace *t, struct ct_event *e, uint64_t *number) {
    resolve_ids(t, e);
    if (e->op != CT_OP_AMEND && (CT_HAS(e, ptr) || CT_HAS(e, handle)))
        set_thread_stack(t, e);
    if (!CT_HAS(e, t_ns))
        e->t_ns = t->last_ns;
    bound_sizes(t, e);
    *number = CT_GET(e, event);
    if (!CT_HAS(e, amends_ns))
        return;
    // The object's free is in progress: an AMEND record that comes later says whether it failed.
    e->t_ns = e->amends_ns;
    ct_amends_apply(&t->amends, e, 1);
}

// Reads the next record of the open section: 1, or 0 after the last one.
static int read_record(struct ct_trace *t, struct ct_event *e) {
    const int more = ct_decoder_next(&t->columns, e);
    if (more < 0) {
        mark_partial(t, &t->index.chunks[t->chunk], malformed);
        t->rest.at = t->rest.end;
    }
    return more > 0;
}

// Opens the next section of the chunk's checkpoint, else goes back to its start for the events. 1:
// there is a section.
static int open_checkpoint_section(struct ct_trace *t) {
    t->in_checkpoint = open_section(t, CT_SECTION_CHECKPOINT);
    t->checkpoint_done = !t->in_checkpoint;
    if (t->checkpoint_done)
        t->rest = t->body_of_chunk;
    return t->in_checkpoint;
}

// Between two sections: opens the next one, of this chunk or of another. Returns 1 if there is
// something to tell before its first record.
static int open_next(struct ct_trace *t, struct ct_event *e, uint64_t *number, enum ct_step *step) {
    if (!t->checkpoint_done) {
        if (open_checkpoint_section(t))
            return 0;
        *step = CT_STEP_COMPLETE;
        if (chunk_completes(t))
            return 1;
    }
    t->in_events = open_section(t, CT_SECTION_EVENTS);
    if (t->in_events)
        return 0;
    *step = CT_STEP_END;
    if (!open_next_chunk(t))
        return 1;
    *number = t->index.chunks[t->chunk].head.first_event;
    e->t_ns = ct_index_first_ns(&t->index, t->chunk);
    *step = chunk_resets(t) ? CT_STEP_RESET : CT_STEP_GAP;
    return chunk_resets(t) || t->index.chunks[t->chunk].loses;
}

enum ct_step ct_trace_step(struct ct_trace *t, struct ct_event *e, uint64_t *number) {
    for (;;) {
        enum ct_step step;
        if ((t->in_events || t->in_checkpoint) && !read_record(t, e))
            t->in_events = t->in_checkpoint = 0;
        if (t->in_checkpoint) {
            complete_object(t, e, number);
            return CT_STEP_OBJECT;
        }
        if (t->in_events && !(CT_HAS(e, op) && e->op == CT_OP_AMEND)) {
            complete_event(t, e);
            *number = t->next_number++;
            return CT_STEP_EVENT;
        }
        if (!t->in_events && open_next(t, e, number, &step))
            return step;
    }
}

int ct_trace_next(struct ct_trace *t, struct ct_event *e, uint64_t *number) {
    enum ct_step step;
    do
        step = ct_trace_step(t, e, number);
    while (step != CT_STEP_END && step != CT_STEP_EVENT);
    return step == CT_STEP_EVENT;
}

static int has_event(const struct ct_index_chunk *c, uint64_t number) {
    return !c->bad && number >= c->head.first_event &&
           number - c->head.first_event < c->head.events;
}

int ct_trace_has_event(const struct ct_trace *t, uint64_t number) {
    for (size_t i = 0; i < t->index.count; i++)
        if (has_event(&t->index.chunks[i], number))
            return 1;
    return 0;
}

int ct_trace_find_event(struct ct_trace *t, uint64_t number, uint64_t *t_ns) {
    struct ct_event e;
    uint64_t at = 0;
    size_t chunk = 0;
    while (chunk < t->index.count && !has_event(&t->index.chunks[chunk], number))
        chunk++;
    ct_trace_rewind(t);
    t->chunk += chunk; // (from the one before the first)
    int more = chunk < t->index.count;
    while (more && (more = ct_trace_next(t, &e, &at)) && at < number)
        ;
    ct_trace_rewind(t);
    *t_ns = more ? e.t_ns : 0;
    return more && at == number;
}

// Since when what is live is known that a chunk restores: since the last event before it, if none
// is missing in between.
static uint64_t find_known(const struct ct_index *x, size_t i) {
    const struct ct_index_chunk *c = &x->chunks[i];
    const uint64_t first_ns = ct_index_first_ns(x, i);
    const int follows = i && !c->gap && !c->reset && !c[-1].bad;
    return follows || first_ns == UINT64_MAX ? ct_index_last_ns(x, i - (size_t)follows) : first_ns;
}

int ct_trace_is_ever_known(const struct ct_trace *t) {
    for (size_t i = 0; i < t->index.count; i++)
        if (t->index.chunks[i].known)
            return 1;
    return 0;
}

int ct_trace_find_gap(const struct ct_trace *t, uint64_t t_ns, struct ct_trace_gap *gap) {
    const struct ct_index *x = &t->index;
    *gap = (struct ct_trace_gap){0, UINT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < x->count; i++) {
        const struct ct_index_chunk *c = &x->chunks[i];
        const uint64_t first_ns = ct_index_first_ns(x, i);
        if (!c->known) {
            if (gap->next_ns == UINT64_MAX && !c->bad)
                gap->next_ns = first_ns;
            continue;
        }
        if (begins_anew(x, i)) {
            gap->known_ns = find_known(x, i);
            if (gap->next_ns > gap->known_ns)
                gap->next_ns = gap->known_ns;
            if (t_ns < gap->known_ns)
                return 1;
        }
        if (i + 1 == x->count || t_ns <= ct_index_last_ns(x, i))
            return 0;
        *gap = (struct ct_trace_gap){ct_index_last_ns(x, i), UINT64_MAX, UINT64_MAX};
    }
    return x->count != 0;
}

void ct_trace_close(struct ct_trace *t) {
    ct_source_close(&t->source);
    ct_journal_read_close(&t->journal);
    free(t->history);
    ct_seek_points_free(&t->seek_points);
    ct_index_free(&t->index);
    ct_definitions_free(&t->definitions);
    ct_amends_free(&t->amends);
    free(t->columns.memory);
    ct_unpacker_end(&t->unpacker);
    *t = (struct ct_trace){.source.fd = -1, .journal.file.fd = -1};
}
