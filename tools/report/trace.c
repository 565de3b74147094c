// SPDX-License-Identifier: Apache-2.0
// Reads a trace twice: first all dictionaries and the corrections of failed give-backs, then the events.
// So a frame has its symbol and an event its final result wherever in the file those came.
#include "trace.h"

#include <inttypes.h>
#include <zstd.h>

struct ct_amend {
    uint64_t t_ns;
    uint64_t duration_ns;
    uint32_t thread, stack;
    int32_t result;
    uint32_t present; // of AMENDS_*
    uint32_t before;  // earlier entry with the same hash, 0 = none
};

enum { AMENDS_RESULT = 1, AMENDS_DURATION = 2, AMENDS_STACK = 4 };

static uint64_t amend_key(uint32_t thread, uint64_t t_ns) {
    return t_ns ^ (uint64_t)thread << 44;
}

// Puts what later records said about an event into it; the last word counts.
static void amend(const struct ct_trace *t, struct ct_event *e) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
    const uint64_t *at = ct_map_get(&t->amends, amend_key(thread, e->t_ns));
    uint32_t done = 0;
    for (uint64_t i = at ? *at : 0; i; i = t->amend_list[i].before) {
        const struct ct_amend *a = &t->amend_list[i];
        if (a->thread != thread || a->t_ns != e->t_ns)
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
}

static void amend_add(struct ct_trace *t, const struct ct_event *e) {
    const uint32_t thread =
        CT_HAS(e, thread) ? ct_names_id(&t->names, CT_SECTION_THREADS, e->thread) : 0;
    struct ct_amend a = {.t_ns = CT_HAS(e, amends_ns) ? e->amends_ns : 0, .thread = thread};
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
        a.stack = ct_names_id(&t->names, CT_SECTION_STACKS, e->stack);
    }
    if (!a.t_ns || !a.present)
        return;
    if (!t->amend_count)
        t->amend_count = 1; // 0 means none
    while (t->amend_count >= t->amend_cap)
        t->amend_list =
            ct_resize(t->amend_list, t->amend_cap = t->amend_cap ? t->amend_cap * 2 : 16,
                      sizeof *t->amend_list);
    uint64_t *at = ct_map_at(&t->amends, amend_key(thread, e->amends_ns));
    a.before = (uint32_t)*at;
    t->amend_list[t->amend_count] = a;
    *at = t->amend_count++;
}

// ---- chunks -----------------------------------------------------------------------------------

static int chunk_damaged(struct ct_trace *t, struct ct_indexed *c, const char *what) {
    if (!c->bad)
        ct_index_damage(&t->index, c->offset, c->body + c->head.body_bytes - c->offset, what);
    c->bad = 1;
    return -1;
}

static void events_damaged(struct ct_trace *t, struct ct_indexed *c) {
    if (!c->partial)
        ct_index_damage(&t->index, c->offset, c->body + c->head.body_bytes - c->offset,
                        "chunk with malformed events");
    c->partial = 1;
}

// Puts the decompressed body of a chunk into t->body. 0, or -1 and the chunk is marked.
static int chunk_body(struct ct_trace *t, struct ct_indexed *c, struct ct_in *body) {
    const uint64_t packed = c->head.body_bytes, raw = c->head.raw_bytes;
    if (c->bad)
        return -1;
    if (packed > ZSTD_compressBound(CT_MAX_BODY) + 1024)
        return chunk_damaged(t, c, "chunk with impossible sizes");
    if (packed > t->packed_cap)
        t->packed = ct_resize(t->packed, t->packed_cap = (size_t)packed, 1);
    if (ct_source_read(&t->source, c->body, t->packed, (size_t)packed) != packed)
        return chunk_damaged(t, c, "bytes that cannot be read");
    // Nothing is decompressed that does not say beforehand how large it will be.
    if (ZSTD_getFrameContentSize(t->packed, (size_t)packed) != raw)
        return chunk_damaged(t, c, "chunk whose body has another size than its prefix says");
    if (raw > t->body_cap)
        t->body = ct_resize(t->body, t->body_cap = (size_t)raw, 1);
    if (ZSTD_decompressDCtx(t->dctx, t->body, (size_t)raw, t->packed, (size_t)packed) != raw)
        return chunk_damaged(t, c, "chunk with a damaged body");
    *body = (struct ct_in){t->body, t->body + raw, 0};
    if (t->progress)
        t->progress(t->progress_user, c->body + packed, t->source.bytes);
    return 0;
}

// Takes in what a body defines, strings first, whatever order its sections have.
static int chunk_names(struct ct_trace *t, const struct ct_indexed *c, struct ct_in body) {
    unsigned kind, kinds = 0;
    struct ct_in section, at = body;
    int more;
    ct_names_generation(&t->names, c->head.dict_seq);
    while ((more = ct_section_next(&at, &kind, &section)) > 0)
        if (kind < CT_SECTION_EVENTS)
            kinds |= 1u << kind;
    if (more < 0)
        return -1;
    for (unsigned k = CT_SECTION_INFO; k < CT_SECTION_EVENTS; k++) {
        at = body;
        while (kinds >> k & 1 && ct_section_next(&at, &kind, &section) > 0)
            if (kind == k && ct_names_section(&t->names, k, section))
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
        if (ct_events_open(&t->columns, section))
            return -1;
        while ((more = ct_events_next(&t->columns, &e)) > 0)
            if (CT_HAS(&e, op) && e.op == CT_OP_AMEND)
                amend_add(t, &e);
        if (more < 0)
            return -1;
    }
    return 0;
}

static void read_definitions(struct ct_trace *t) {
    for (size_t i = 0; i < t->index.count; i++) {
        struct ct_indexed *c = &t->index.chunks[i];
        struct ct_in body;
        if (chunk_body(t, c, &body))
            continue;
        if (chunk_names(t, c, body))
            chunk_damaged(t, c, "chunk with a malformed body");
        else if (c->head.flags & CT_CHUNK_AMENDS && chunk_amends(t, body))
            events_damaged(t, c);
    }
}

// ---- the trace as a whole -------------------------------------------------------------------

static void overview(struct ct_trace *t) {
    uint64_t expected = 0;
    int first = 1;
    for (size_t i = 0; i < t->index.count; i++) {
        const struct ct_indexed *c = &t->index.chunks[i];
        if (c->bad)
            continue;
        if (first)
            t->first_event = c->head.first_event;
        else if (c->head.first_event > expected)
            t->missing_events += c->head.first_event - expected;
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
    const struct ct_indexed *last = t->index.count ? &t->index.chunks[t->index.count - 1] : NULL;
    t->ended = last && !last->bad && last->head.flags & CT_CHUNK_LAST;
    // Time 0 is the process's start; it is told on the events' clock, but that is the trace's word.
    const uint64_t year = UINT64_C(31556952000000000);
    if (!ct_names_number(&t->names, "process.start_ns", &t->start_ns) ||
        (t->t_first_ns && (t->start_ns > t->t_first_ns || t->t_first_ns - t->start_ns > 20 * year)))
        t->start_ns = t->t_first_ns;
}

int ct_trace_whole(const struct ct_trace *t) {
    return t->ended && !t->index.damages && !t->index.missing && !t->missing_events &&
           t->index.chunks[0].head.seq == 0;
}

int ct_trace_open_source(struct ct_trace *t, struct ct_error *error) {
    ct_names_init(&t->names);
    t->dctx = ZSTD_createDCtx();
    if (!t->dctx)
        ct_out_of_memory();
    if (ct_index_read(&t->index, &t->source, error))
        return -1;
    read_definitions(t);
    overview(t);
    size_t readable = 0;
    for (size_t i = 0; i < t->index.count; i++)
        readable += !t->index.chunks[i].bad;
    if (!readable)
        return ct_fail(error, CT_BAD_TRACE, "%s: offset %" PRIu64 ": %s; no chunk is readable",
                       t->source.name, t->index.damage[0].offset, t->index.damage[0].what);
    ct_trace_rewind(t);
    return 0;
}

int ct_trace_open(struct ct_trace *t, const char *path, struct ct_error *error) {
    const struct ct_trace blank = {
        .details = t->details, .progress = t->progress, .progress_user = t->progress_user};
    *t = blank;
    if (ct_source_open(&t->source, path, error))
        return -1;
    return ct_trace_open_source(t, error);
}

void ct_trace_rewind(struct ct_trace *t) {
    t->chunk = (size_t)-1;
    t->rest = (struct ct_in){NULL, NULL, 0};
    t->in_events = 0;
    t->last_ns = 0;
    t->names.generation = UINT64_MAX;
}

// Opens the next section of events, in this chunk or a later one. 0 at the end of the trace.
static int next_events(struct ct_trace *t) {
    struct ct_in section;
    unsigned kind;
    for (;;) {
        while (ct_section_next(&t->rest, &kind, &section) > 0) {
            if (kind != CT_SECTION_EVENTS)
                continue;
            if (ct_events_open(&t->columns, section) == 0)
                return 1;
            events_damaged(t, &t->index.chunks[t->chunk]);
            break;
        }
        do {
            if (++t->chunk >= t->index.count)
                return 0;
        } while (chunk_body(t, &t->index.chunks[t->chunk], &t->rest));
        chunk_names(t, &t->index.chunks[t->chunk], t->rest);
        t->next_number = t->index.chunks[t->chunk].head.first_event;
    }
}

static void resolve(struct ct_trace *t, struct ct_event *e) {
    const struct ct_names *n = &t->names;
    if (CT_HAS(e, thread))
        e->thread = ct_names_id(n, CT_SECTION_THREADS, e->thread);
    if (CT_HAS(e, api))
        e->api = ct_names_id(n, CT_SECTION_STRINGS, e->api);
    if (CT_HAS(e, stack))
        e->stack = ct_names_id(n, CT_SECTION_STACKS, e->stack);
    if (CT_HAS(e, text))
        e->text = ct_names_id(n, CT_SECTION_STRINGS, e->text);
    if (!CT_HAS(e, t_ns))
        e->t_ns = t->last_ns;
    t->last_ns = e->t_ns;
    if (!CT_HAS(e, op))
        e->op = 0;
    if (t->amend_count)
        amend(t, e);
}

int ct_trace_next(struct ct_trace *t, struct ct_event *e, uint64_t *number) {
    for (;;) {
        if (!t->in_events && !next_events(t))
            return 0;
        const int more = ct_events_next(&t->columns, e);
        t->in_events = more > 0;
        if (more < 0) {
            events_damaged(t, &t->index.chunks[t->chunk]);
            t->rest.at = t->rest.end;
        }
        if (more <= 0 || (CT_HAS(e, op) && e->op == CT_OP_AMEND))
            continue;
        resolve(t, e);
        *number = t->next_number++;
        return 1;
    }
}

void ct_trace_close(struct ct_trace *t) {
    ct_source_close(&t->source);
    ct_index_free(&t->index);
    ct_names_free(&t->names);
    ct_map_clear(&t->amends);
    free(t->amend_list);
    free(t->packed);
    free(t->body);
    ZSTD_freeDCtx(t->dctx);
    *t = (struct ct_trace){.source.fd = -1};
}
