// SPDX-License-Identifier: Apache-2.0
// Reads a trace twice: first all dictionaries and the corrections of failed give-backs, then the events.
// So a frame has its symbol and an event its final result wherever in the file those came.
#include "read/trace.h"

#include <cutrace/model/checkpoint.h>
#include <inttypes.h>
#include <unistd.h>
#include <zstd.h>

struct ct_publish_amend {
    uint64_t t_ns;
    uint64_t duration_ns;
    uint32_t thread, stack;
    int32_t result;
    uint32_t present; // of AMENDS_*
    uint32_t before;  // earlier entry with the same hash, 0 = none
};

enum { AMENDS_RESULT = 1, AMENDS_DURATION = 2, AMENDS_STACK = 4 };

// Events whose times are close together share a list: a time that was rounded down is found by the exact one.
#define AMEND_SPAN_NS UINT64_C(16384)

static uint64_t amend_key(uint32_t thread, uint64_t span) {
    return span ^ (uint64_t)thread << 44;
}

// Puts what one list says about an event into it. The event's exact time is one of `span` ns from its t_ns on.
static uint32_t amend_from(const struct ct_trace *t, struct ct_event *e, uint64_t key,
                           uint64_t span, uint32_t done) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
    const uint64_t *at = ct_map_find(&t->amends, key);
    for (uint64_t i = at ? *at : 0; i; i = t->amend_list[i].before) {
        const struct ct_publish_amend *a = &t->amend_list[i];
        if (a->thread != thread || a->t_ns - e->t_ns >= span)
            continue;
        const uint32_t set = a->present & ~done;
        if (set & AMENDS_RESULT)
            CT_SET(e, result, a->result);
        if (set & AMENDS_DURATION)
            CT_SET(e, duration_ns, a->duration_ns);
        if (set & AMENDS_STACK)
            CT_SET(e, stack, a->stack);
        done |= a->present;
    }
    return done;
}

// Puts what later records said about an event into it; the last word counts. An event whose time was rounded down is alone in
// its tick (FORMAT.md, section 3), so that whatever names a time of this tick means it.
static void amend(const struct ct_trace *t, struct ct_event *e) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
    const uint64_t span = t->columns.exact ? 1 : t->columns.tick_ns;
    const uint64_t first = e->t_ns / AMEND_SPAN_NS, last = (e->t_ns + span - 1) / AMEND_SPAN_NS;
    uint32_t done = 0;
    for (uint64_t i = first; i <= last; i++)
        done = amend_from(t, e, amend_key(thread, i), span, done);
}

static void amend_add(struct ct_trace *t, const struct ct_event *e) {
    const uint32_t thread =
        CT_HAS(e, thread) ? ct_definitions_id(&t->definitions, CT_SECTION_THREADS, e->thread) : 0;
    struct ct_publish_amend a = {.t_ns = CT_HAS(e, amends_ns) ? e->amends_ns : 0, .thread = thread};
    if (CT_HAS(e, result)) {
        a.present |= AMENDS_RESULT;
        a.result = e->result;
    }
    // Durations are sampled for give-backs that succeed: many, and only a list of events shows them.
    if (t->details && CT_HAS(e, duration_ns)) {
        a.present |= AMENDS_DURATION;
        a.duration_ns = e->duration_ns;
    }
    if (t->details && CT_HAS(e, stack)) {
        a.present |= AMENDS_STACK;
        a.stack = ct_definitions_id(&t->definitions, CT_SECTION_STACKS, e->stack);
    }
    if (!a.t_ns || !a.present)
        return;
    if (!t->amend_count)
        t->amend_count = 1; // 0 means none
    while (t->amend_count >= t->amend_cap)
        t->amend_list =
            ct_heap_resize(t->amend_list, t->amend_cap = t->amend_cap ? t->amend_cap * 2 : 16,
                      sizeof *t->amend_list);
    uint64_t *at = ct_map_add(&t->amends, amend_key(thread, e->amends_ns / AMEND_SPAN_NS));
    a.before = (uint32_t)*at;
    t->amend_list[t->amend_count] = a;
    *at = t->amend_count++;
}

// ---- chunks -----------------------------------------------------------------------------------

static int chunk_damaged(struct ct_trace *t, struct ct_index_chunk *c, const char *what) {
    if (!c->bad)
        ct_index_damage(&t->index, c->offset, c->body + c->head.body_bytes - c->offset, what);
    c->bad = 1;
    return -1;
}

static void events_damaged(struct ct_trace *t, struct ct_index_chunk *c) {
    if (!c->partial)
        ct_index_damage(&t->index, c->offset, c->body + c->head.body_bytes - c->offset,
                        "chunk with malformed events");
    c->partial = 1;
}

// Puts the decompressed body of a chunk into t->body. 0, or -1 and the chunk is marked.
static int chunk_body(struct ct_trace *t, struct ct_index_chunk *c, struct ct_in *body) {
    const uint64_t packed = c->head.body_bytes, raw = c->head.raw_bytes;
    if (c->bad)
        return -1;
    if (packed > ZSTD_compressBound(CT_MAX_BODY) + 1024)
        return chunk_damaged(t, c, "chunk with impossible sizes");
    if (packed > t->packed_cap)
        t->packed = ct_heap_resize(t->packed, t->packed_cap = (size_t)packed, 1);
    if (ct_source_read(&t->source, c->body, t->packed, (size_t)packed) != packed)
        return chunk_damaged(t, c, "bytes that cannot be read");
    // Nothing is decompressed that does not say beforehand how large it will be.
    if (ZSTD_getFrameContentSize(t->packed, (size_t)packed) != raw)
        return chunk_damaged(t, c, "chunk whose body has another size than its prefix says");
    if (raw > t->body_cap)
        t->body = ct_heap_resize(t->body, t->body_cap = (size_t)raw, 1);
    if (ZSTD_decompressDCtx(t->dctx, t->body, (size_t)raw, t->packed, (size_t)packed) != raw)
        return chunk_damaged(t, c, "chunk with a damaged body");
    *body = (struct ct_in){t->body, t->body + raw, 0};
    if (t->progress)
        t->progress(t->progress_user, c->body + packed, t->source.bytes);
    return 0;
}

int ct_trace_read_body(struct ct_trace *t, size_t chunk, struct ct_in *body) {
    return chunk_body(t, &t->index.chunks[chunk], body);
}

// Takes in what a body defines, strings first, whatever order its sections have.
static int chunk_names(struct ct_trace *t, const struct ct_index_chunk *c, struct ct_in body) {
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
            if (kind == k && ct_definitions_read_section(&t->definitions, c->head.version, k, section))
                return -1;
    }
    return 0;
}

static int chunk_amends(struct ct_trace *t, struct ct_in body) {
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
                amend_add(t, &e);
        if (more < 0)
            return -1;
    }
    return 0;
}

// Notes which part of a checkpoint the chunk holds, and keeps the newest history.
static int chunk_state(struct ct_trace *t, struct ct_index_chunk *c, struct ct_in body) {
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
        }
    }
    return 0;
}

static void read_definitions(struct ct_trace *t) {
    for (size_t i = 0; i < t->index.count; i++) {
        struct ct_index_chunk *c = &t->index.chunks[i];
        struct ct_in body;
        if (chunk_body(t, c, &body))
            continue;
        if (chunk_names(t, c, body) || chunk_state(t, c, body))
            chunk_damaged(t, c, "chunk with a malformed body");
        else if (c->head.flags & CT_CHUNK_AMENDS && chunk_amends(t, body))
            events_damaged(t, c);
    }
}

// ---- the trace as a whole -------------------------------------------------------------------

// Where the state is taken from checkpoints: after a gap, and as long as it is not known in full. Who has
// everything from event 0 on needs none.
static void plan_state(struct ct_trace *t) {
    int exact = 1, coarse = 0, restoring = 0, lost = 0;
    for (size_t i = 0; i < t->index.count; i++) {
        struct ct_index_chunk *c = &t->index.chunks[i];
        lost |= c->gap;
        if (c->bad)
            lost = 1;
        if (c->bad)
            continue;
        c->reset = i && c->overwritten;
        if (lost)
            exact = restoring = lost = 0;
        if (!exact && c->checkpoint & CT_CHECKPOINT_FIRST &&
            (!coarse || !(c->checkpoint & CT_CHECKPOINT_INEXACT))) {
            c->reset = 1;
            restoring = 1;
            coarse = c->checkpoint & CT_CHECKPOINT_INEXACT;
        }
        c->restores = restoring && c->has_checkpoint;
        if (!c->restores || !(c->checkpoint & CT_CHECKPOINT_LAST))
            continue;
        c->completes = 1;
        restoring = 0;
        exact = !(c->checkpoint & CT_CHECKPOINT_INEXACT);
        if (exact)
            t->exact_from_ns = ct_index_first_ns(&t->index, i);
        if (t->exact_from_ns == UINT64_MAX) // nothing happened since
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
            uint64_t *to = first || c->overwritten ? &t->overwritten_events : &t->missing_events;
            *to += c->head.first_event - expected;
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

static void overview(struct ct_trace *t) {
    count_events(t);
    plan_state(t);
    const struct ct_index_chunk *last = t->index.count ? &t->index.chunks[t->index.count - 1] : NULL;
    t->ended = last && !last->bad && last->head.flags & CT_CHUNK_LAST;
    t->sealed = last && !last->bad && last->head.flags & CT_CHUNK_SEALED && !t->index.cut;
    t->running = t->journal_found > 0 && t->journal.alive && !t->ended;
    (void)ct_definitions_info_number(&t->definitions, "journal.torn_events", &t->torn);
    // Time 0 is the process's start; it is told on the events' clock, but that is the trace's word.
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

uint64_t ct_trace_append_offset(const struct ct_trace *t) {
    uint64_t at = t->source.file_bytes;
    if ((t->index.cut || t->index.mended) && t->index.cut_at < at)
        at = t->index.cut_at;
    if (t->journal.append_at && t->journal.append_at < at)
        at = t->journal.append_at;
    return at;
}

// Adds what the journal has and the file has not.
static void fold_journal(struct ct_trace *t) {
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
    if (t->journal.mends)
        ct_index_forgive_cut(x);
    ct_source_append(&t->source, bytes, size, CT_CHUNK_ALIGN);
    ct_index_scan(x, &t->source, t->source.added_at, t->source.bytes);
}

int ct_trace_open_source(struct ct_trace *t, struct ct_error *error) {
    ct_definitions_init(&t->definitions);
    t->dctx = ZSTD_createDCtx();
    if (!t->dctx)
        ct_heap_exhausted();
    t->columns.memory = ct_heap_resize(NULL, ct_decoder_memory_bytes(), 1);
    ct_index_scan(&t->index, &t->source, 0, t->source.bytes);
    fold_journal(t);
    if (ct_index_sort(&t->index, &t->source, error))
        return -1;
    read_definitions(t);
    ct_definitions_finish(&t->definitions);
    overview(t);
    size_t readable = 0;
    for (size_t i = 0; i < t->index.count; i++)
        readable += !t->index.chunks[i].bad;
    if (!readable)
        return ct_error_set(error, CT_EXIT_BAD_TRACE, "%s: offset %" PRIu64 ": %s; no chunk is readable",
                       t->source.name, t->index.damage[0].offset, t->index.damage[0].what);
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
    // The journal first: what leaves it meanwhile is then found in the trace.
    if (!t->no_journal && strcmp(path, "-") != 0)
        t->journal_found = ct_journal_read_trace(&t->journal, path, &t->journal_error);
    if (ct_source_open(&t->source, path, error)) {
        if (t->journal_found <= 0 || access(path, F_OK) == 0)
            return -1;
        ct_source_open_memory(&t->source, path, NULL, 0); // the disk was full from the first chunk on
    }
    return ct_trace_open_source(t, error);
}

void ct_trace_rewind(struct ct_trace *t) {
    t->chunk = (size_t)-1;
    t->rest = t->body_of_chunk = (struct ct_in){NULL, NULL, 0};
    t->in_events = t->in_checkpoint = 0;
    t->checkpoint_done = 1;
    t->last_ns = 0;
    t->definitions.generation = UINT64_MAX;
}

// Opens the next section of a kind in this chunk. 0: there is none.
static int next_section(struct ct_trace *t, unsigned wanted) {
    struct ct_in section;
    unsigned kind;
    while (ct_section_next(&t->rest, &kind, &section) > 0) {
        if (kind != wanted)
            continue;
        if (kind == CT_SECTION_CHECKPOINT)
            (void)ct_get_varint(&section);
        if (ct_decoder_open(&t->columns, section) == 0)
            return 1;
        events_damaged(t, &t->index.chunks[t->chunk]);
        break;
    }
    return 0;
}

// Opens the next chunk. 0 at the end of the trace.
static int next_chunk(struct ct_trace *t) {
    do {
        if (++t->chunk >= t->index.count)
            return 0;
    } while (chunk_body(t, &t->index.chunks[t->chunk], &t->body_of_chunk));
    const struct ct_index_chunk *c = &t->index.chunks[t->chunk];
    t->rest = t->body_of_chunk;
    chunk_names(t, c, t->rest);
    t->next_number = c->head.first_event;
    t->checkpoint_done = !c->restores;
    return 1;
}

int ct_trace_op_acquires(uint32_t op) {
    switch (op) {
    case CT_OP_ALLOC:
    case CT_OP_RESERVE:
    case CT_OP_CREATE:
    case CT_OP_MAP:
    case CT_OP_REGISTER:
    case CT_OP_GRAPH_ALLOC:
    case CT_OP_POOL_CREATE:
    case CT_OP_IPC_OPEN:
    case CT_OP_IMPORT:
    case CT_OP_ACCESS:
    case CT_OP_CONTEXT_CREATE:
    case CT_OP_MODULE_LOAD:
    case CT_OP_LIMIT:
    case CT_OP_BLOCK_ALLOC:
    case CT_OP_BLOCK_OOM:
        return 1;
    default:
        return 0;
    }
}

static void resolve_ids(const struct ct_trace *t, struct ct_event *e) {
    const struct ct_definitions *n = &t->definitions;
    if (CT_HAS(e, thread))
        e->thread = ct_definitions_id(n, CT_SECTION_THREADS, e->thread);
    if (CT_HAS(e, api))
        e->api = ct_definitions_id(n, CT_SECTION_STRINGS, e->api);
    if (CT_HAS(e, stack))
        e->stack = ct_definitions_id(n, CT_SECTION_STACKS, e->stack);
    if (CT_HAS(e, text))
        e->text = ct_definitions_id(n, CT_SECTION_STRINGS, e->text);
    if (!CT_HAS(e, op))
        e->op = 0;
}

static void resolve(struct ct_trace *t, struct ct_event *e) {
    resolve_ids(t, e);
    if (!CT_HAS(e, t_ns))
        e->t_ns = t->last_ns;
    t->last_ns = e->t_ns;
    if (t->amend_count)
        amend(t, e);
    // Where no frame is known, at least the thread is: PyTorch's and NCCL's have names that say what they do.
    if (!CT_HAS(e, stack) && ct_trace_op_acquires(e->op) && CT_HAS(e, thread)) {
        const uint32_t stack = ct_definitions_thread_stack(&t->definitions, e->thread);
        if (stack)
            CT_SET(e, stack, stack);
    }
}

// What an object is known by is its number in the process; everything else is as in an event.
static void resolve_object(const struct ct_trace *t, struct ct_event *e, uint64_t *number) {
    resolve_ids(t, e);
    if (!CT_HAS(e, t_ns))
        e->t_ns = t->last_ns;
    *number = CT_HAS(e, event) ? e->event : 0;
    if (!CT_HAS(e, amends_ns))
        return;
    // A call that gave back the next object: whether it failed is told by an AMEND that came later.
    e->t_ns = e->amends_ns;
    (void)amend_from(t, e, amend_key(CT_HAS(e, thread) ? e->thread : 0, e->t_ns / AMEND_SPAN_NS), 1,
                     0);
}

// The next record of the section that is open: 1, or 0 behind the last one.
static int next_record(struct ct_trace *t, struct ct_event *e) {
    const int more = ct_decoder_next(&t->columns, e);
    if (more < 0) {
        events_damaged(t, &t->index.chunks[t->chunk]);
        t->rest.at = t->rest.end;
    }
    return more > 0;
}

enum ct_step ct_trace_step(struct ct_trace *t, struct ct_event *e, uint64_t *number) {
    for (;;) {
        if (t->in_checkpoint && (t->in_checkpoint = next_record(t, e))) {
            resolve_object(t, e, number);
            return CT_STEP_OBJECT;
        }
        if (!t->checkpoint_done) {
            t->in_checkpoint = next_section(t, CT_SECTION_CHECKPOINT);
            t->checkpoint_done = !t->in_checkpoint;
            if (!t->checkpoint_done)
                continue;
            t->rest = t->body_of_chunk;
            if (t->index.chunks[t->chunk].completes)
                return CT_STEP_COMPLETE;
        }
        if (!t->in_events && !(t->in_events = next_section(t, CT_SECTION_EVENTS))) {
            if (!next_chunk(t))
                return CT_STEP_END;
            if (t->index.chunks[t->chunk].reset)
                return CT_STEP_RESET;
            continue;
        }
        t->in_events = next_record(t, e);
        if (!t->in_events || (CT_HAS(e, op) && e->op == CT_OP_AMEND))
            continue;
        resolve(t, e);
        *number = t->next_number++;
        return CT_STEP_EVENT;
    }
}

int ct_trace_next(struct ct_trace *t, struct ct_event *e, uint64_t *number) {
    enum ct_step step;
    do
        step = ct_trace_step(t, e, number);
    while (step != CT_STEP_END && step != CT_STEP_EVENT);
    return step == CT_STEP_EVENT;
}

void ct_trace_close(struct ct_trace *t) {
    ct_source_close(&t->source);
    ct_journal_read_close(&t->journal);
    free(t->history);
    ct_index_free(&t->index);
    ct_definitions_free(&t->definitions);
    ct_map_free(&t->amends);
    free(t->amend_list);
    free(t->columns.memory);
    free(t->packed);
    free(t->body);
    ZSTD_freeDCtx(t->dctx);
    *t = (struct ct_trace){.source.fd = -1, .journal.file.fd = -1};
}
