// SPDX-License-Identifier: Apache-2.0
// Two passes over the trace where the copy begins later: the first one replays up to there, the
// second one copies. Gaps of the trace stay gaps of the copy, with the checkpoints after them.
#include "copy/copy_trace.h"

#include <cutrace/model/failures.h>
#include <inttypes.h>
#include <stdio.h>

#include "replay/replay.h"

struct copy {
    struct ct_trace *t;
    const struct ct_copy_request *request;
    struct ct_copied *copied;
    struct ct_trace_writer w;
    struct ct_history history;
    int history_lacks;       // events before the begin are missing that it does not cover
    struct ct_replay replay; // up to the begin
    uint64_t begin;          // number of the first event
    int replays;             // the copy begins with the state of `replay`
    // Of the second pass.
    uint64_t expected;   // number of the next event, if none is missing
    int in_part;         // objects of a checkpoint are being read
    int is_first;        // they are of its first part
    unsigned part_flags; // CT_CHECKPOINT_INEXACT
    int writes;          // the copy has begun
    int runs;            // it has a run of chunks
};

// ---- where it begins ----------------------------------------------------------------------------

// The chunk with the first event of the range; the number of chunks if there is none.
static size_t find_chunk(const struct ct_trace *t, uint64_t from_ns) {
    size_t i = 0;
    while (i < t->index.count && (t->index.chunks[i].bad || !t->index.chunks[i].head.events ||
                                  t->index.chunks[i].head.t_last_ns < from_ns))
        i++;
    return i;
}

// Whether the state is known in full at the events of a chunk.
static int is_exact(const struct ct_trace *t, size_t chunk) {
    int exact = 1;
    for (size_t i = 0; i <= chunk; i++) {
        const struct ct_index_chunk *c = &t->index.chunks[i];
        if (c->gap || c->bad)
            exact = 0;
        if (!c->bad && c->completes)
            exact = !(c->checkpoint & CT_CHECKPOINT_INEXACT);
    }
    return exact;
}

// The last chunk up to this one at which the state begins anew, 0 if there is none.
static size_t find_reset(const struct ct_trace *t, size_t chunk) {
    while (chunk && !t->index.chunks[chunk].reset)
        chunk--;
    return chunk;
}

// Reads the history that a chunk begins with. Returns 0 if it has none.
static int read_history(struct copy *c, size_t chunk) {
    struct ct_in body, section;
    unsigned kind;
    if (ct_trace_read_body(c->t, chunk, &body))
        return 0;
    while (ct_section_next(&body, &kind, &section) > 0)
        if (kind == CT_SECTION_HISTORY && ct_history_decode(&c->history, section) == 0)
            return 1;
    return 0;
}

// Begins the history with the last one that the trace has before this chunk, where events are
// missing before it. Returns the number of the first event that it does not cover.
static uint64_t begin_history(struct copy *c, size_t chunk) {
    const struct ct_index_chunk *chunks = c->t->index.chunks;
    for (size_t i = chunk + 1; i-- > 0;)
        if ((chunks[i].reset || chunks[i].gap) && read_history(c, i))
            return chunks[i].head.first_event;
    ct_history_begin(&c->history, c->t->start_ns);
    return 0;
}

static void note_history(struct copy *c, const struct ct_event *e) {
    const int device = ct_event_device_index(e);
    const struct ct_quantities now =
        ct_quantities_now(&c->replay.live, &c->replay.readings, device, NULL);
    ct_history_count(&c->history, e->t_ns, device, 1, (uint64_t)ct_event_is_oom(e));
    ct_history_add(&c->history, e->t_ns, device, &now);
}

// Replays up to the first event of the range. Returns 0 if there is none.
static int replay_to_begin(struct copy *c, uint64_t history_from) {
    const struct ct_event *e;
    uint64_t number, next = history_from;
    ct_trace_rewind(c->t);
    ct_replay_init(&c->replay);
    while ((e = ct_replay_next(&c->replay, c->t, &number)) && e->t_ns < c->request->from_ns) {
        ct_replay_apply(&c->replay, e, number);
        if (number < history_from)
            continue;
        c->history_lacks |= number > next || e->op == CT_OP_LOST;
        next = number + 1;
        if (CT_HAS(e, device))
            note_history(c, e);
    }
    c->history_lacks |= e && number > next;
    c->begin = number;
    ct_replay_stop(&c->replay);
    return e != NULL;
}

static int choose_begin(struct copy *c) {
    const struct ct_index_chunk *chunks = c->t->index.chunks;
    const size_t in = find_chunk(c->t, c->request->from_ns);
    if (in == c->t->index.count)
        return -1;
    const size_t reset = find_reset(c->t, in);
    c->begin = chunks[reset].head.first_event;
    if (in == 0 && ct_index_first_ns(&c->t->index, 0) >= c->request->from_ns)
        return 0;
    if (!is_exact(c->t, in)) {
        c->copied->moved = 1;
        return 0;
    }
    c->replays = 1;
    return replay_to_begin(c, begin_history(c, reset)) ? 0 : -1;
}

// ---- INFO ---------------------------------------------------------------------------------------

static struct ct_string text_of(const char *text) {
    return (struct ct_string){text, (uint32_t)strlen(text)};
}

static void add_number(struct ct_buffer *info, const char *key, uint64_t value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    ct_trace_writer_add_info(info, text_of(key), text_of(text));
}

static int is_about_trim(const struct ct_string *key) {
    return key->length >= 5 && memcmp(key->at, "trim.", 5) == 0;
}

static int is_level(const struct ct_string *key) {
    return key->length == 11 && memcmp(key->at, "scrub.level", 11) == 0;
}

// What is left out adds up when a copy is copied.
static uint64_t earlier(const struct copy *c, const char *key) {
    uint64_t n = 0;
    (void)ct_definitions_info_number(&c->t->definitions, key, &n);
    return n;
}

static void add_trim_info(struct copy *c) {
    struct ct_buffer *info = &c->w.info;
    const uint64_t before = c->copied->before + earlier(c, "trim.events_before"),
                   after = c->copied->after + earlier(c, "trim.events_after");
    if (before)
        add_number(info, "trim.events_before", before);
    if (after)
        add_number(info, "trim.events_after", after);
    if (c->t->incomplete && !earlier(c, "trim.events_after"))
        add_number(info, "trim.end_missing", 1);
}

static void add_info(struct copy *c) {
    const struct ct_definitions *n = &c->t->definitions;
    for (size_t i = 1; i < n->info_count; i++) {
        const struct ct_string *key = &n->strings[n->info[i].key];
        struct ct_string value = n->strings[n->info[i].value];
        if (is_about_trim(key) || (c->request->level && is_level(key)))
            continue;
        if (c->request->rename_info)
            value = c->request->rename_info(c->request->rename_user, key, &value);
        if (value.length != UINT32_MAX)
            ct_trace_writer_add_info(&c->w.info, *key, value);
    }
    add_trim_info(c);
    if (c->request->level)
        ct_trace_writer_add_info(&c->w.info, text_of("scrub.level"), text_of(c->request->level));
}

// ---- the range ----------------------------------------------------------------------------------

// How many events the trace has before and after the range.
static void count_left_out(struct copy *c) {
    const struct ct_trace *t = c->t;
    struct ct_event e;
    uint64_t number, kept = 0, before = 0;
    ct_trace_rewind(c->t);
    while (ct_trace_next(c->t, &e, &number)) {
        before += number < c->begin;
        if (e.t_ns > c->request->to_ns && number >= c->begin)
            break;
        kept += number >= c->begin;
    }
    c->copied->before = before;
    c->copied->events = kept;
    c->copied->after = t->events > before + kept ? t->events - before - kept : 0;
}

// The place of a record among those of a checkpoint (FORMAT.md, section 7).
static unsigned place_of(const struct ct_event *e) {
    switch (e->op) {
    case CT_OP_GRAPH_ALLOC:
        return 1;
    case CT_OP_MAP:
        return 2;
    case CT_OP_CREATE:
        return 3;
    case CT_OP_RANGE_PUSH:
    case CT_OP_RANGE_START:
        return 5;
    default:
        return CT_HAS(e, event) || CT_HAS(e, pool) ? 0 : 4;
    }
}

// By place, then by number: the order of the live table depends on what was live before.
static int compare_objects(const void *a, const void *b) {
    const struct ct_event *x = a, *y = b;
    const uint64_t keys[2][4] = {
        {place_of(x), CT_GET(x, event), CT_GET(x, ptr), CT_HAS(x, pool) ? x->pool : x->unused[0]},
        {place_of(y), CT_GET(y, event), CT_GET(y, ptr), CT_HAS(y, pool) ? y->pool : y->unused[0]}};
    for (size_t i = 0; i < 4; i++)
        if (keys[0][i] != keys[1][i])
            return keys[0][i] < keys[1][i] ? -1 : 1;
    return 0;
}

static void put_state(struct copy *c) {
    struct ct_event *records = NULL;
    size_t n = 0, room = 0;
    struct ct_checkpoint k;
    ct_checkpoint_begin(&k, &c->replay.live);
    while (k.pass != CT_PASS_DONE) {
        if (room - n < 64)
            records = ct_heap_resize(records, room = room * 2 + 1024, sizeof *records);
        n += ct_checkpoint_next(&k, &c->replay.live, &c->replay.readings, records + n, room - n);
    }
    for (size_t i = 0; i < n; i++)
        records[i].unused[0] = i;
    if (n)
        qsort(records, n, sizeof *records, compare_objects);
    for (size_t i = 0; i < n; i++)
        ct_trace_writer_put_object(&c->w, &records[i]);
    free(records);
    ct_trace_writer_end_part(&c->w, CT_CHECKPOINT_FIRST | CT_CHECKPOINT_LAST);
}

// ---- the second pass ----------------------------------------------------------------------------

// Ends the part of a checkpoint that is being read.
static void end_part(struct copy *c, unsigned last) {
    ct_trace_writer_end_part(&c->w,
                             (c->is_first ? CT_CHECKPOINT_FIRST : 0u) | last | c->part_flags);
    c->in_part = c->is_first = 0;
}

static void begin_run(struct copy *c, int gap, uint64_t number, int restart,
                      const struct ct_history *history) {
    if (c->in_part)
        end_part(c, 0);
    ct_trace_writer_begin_run(&c->w, gap, number, restart, history);
    c->expected = number;
    c->runs = 1;
}

// The first chunk that can be read; 0 if none can.
static size_t find_readable(const struct ct_trace *t) {
    size_t i = 0;
    while (i < t->index.count && t->index.chunks[i].bad)
        i++;
    return i < t->index.count ? i : 0;
}

// Where no reset does: the beginning, or what is left behind it.
static void begin_first(struct copy *c) {
    const size_t first = find_readable(c->t);
    const struct ct_index_chunk *chunk = &c->t->index.chunks[first];
    const int gap = first || chunk->gap;
    begin_run(c, gap, gap ? chunk->head.first_event : 0, !gap, NULL);
}

// Chunks are missing, perhaps without events.
static void put_gap(struct copy *c) {
    if (c->t->chunk != find_readable(c->t))
        begin_run(c, 1, c->t->index.chunks[c->t->chunk].head.first_event, 0, NULL);
}

// The state becomes unknown: a run of its own. What is missing before it was overwritten in a ring,
// as readers take it where a generation begins, or it is lost.
static void put_reset(struct copy *c) {
    const size_t at = c->t->chunk;
    const struct ct_index_chunk *chunk = &c->t->index.chunks[at];
    const int gap = !c->runs || chunk->gap || (at && chunk[-1].bad);
    const int lost = c->runs && gap && !chunk->overwritten;
    begin_run(c, gap, chunk->head.first_event, !lost, read_history(c, at) ? &c->history : NULL);
    c->part_flags = (unsigned)chunk->checkpoint & CT_CHECKPOINT_INEXACT;
    c->in_part = c->is_first = 1;
}

// An object's free that is known to have failed is no free.
static void put_object(struct copy *c, const struct ct_event *e) {
    c->in_part = 1;
    if (e->op != CT_OP_AMEND || !CT_HAS(e, result) || !e->result)
        ct_trace_writer_put_object(&c->w, e);
}

static void put_event(struct copy *c, const struct ct_event *e, uint64_t number) {
    if (c->in_part)
        end_part(c, 0);
    if (number > c->expected) // events are lost where nothing was known before
        begin_run(c, 1, number, 0, NULL);
    ct_trace_writer_put_event(&c->w, e);
    c->expected = number + 1;
}

// (Of a copy with a history, readers take it that nothing happened which is not in there.)
static void begin_later(struct copy *c) {
    begin_run(c, 1, c->begin, 1, c->history_lacks ? NULL : &c->history);
    put_state(c);
}

// Whether a step belongs to the copy; `number` is that of an event.
static int is_kept(struct copy *c, enum ct_step step, uint64_t number) {
    if (c->writes)
        return 1;
    if (step == CT_STEP_EVENT)
        c->writes = number >= c->begin;
    else if (!c->replays) // the reset with which the copy begins
        c->writes =
            step == CT_STEP_RESET && c->t->index.chunks[c->t->chunk].head.first_event >= c->begin;
    return c->writes;
}

static void copy_steps(struct copy *c) {
    struct ct_event e;
    enum ct_step step;
    uint64_t number = 0;
    ct_trace_rewind(c->t);
    c->writes = !c->request->from_ns;
    if (c->replays)
        begin_later(c);
    while ((step = ct_trace_step(c->t, &e, &number)) != CT_STEP_END && !c->w.failed) {
        if (!is_kept(c, step, number))
            continue;
        const int is_gap = step == CT_STEP_GAP || step == CT_STEP_RESET;
        if (is_gap && e.t_ns > c->request->to_ns)
            break;
        if (!c->runs && step != CT_STEP_RESET)
            begin_first(c);
        if (step == CT_STEP_RESET)
            put_reset(c);
        else if (step == CT_STEP_GAP)
            put_gap(c);
        else if (step == CT_STEP_OBJECT)
            put_object(c, &e);
        else if (step == CT_STEP_COMPLETE)
            end_part(c, CT_CHECKPOINT_LAST);
        else if (e.t_ns > c->request->to_ns)
            break;
        else
            put_event(c, &e, number);
    }
    if (c->in_part)
        end_part(c, 0);
    if (!c->runs)
        begin_first(c);
}

static unsigned end_flags(const struct copy *c) {
    if (c->copied->after)
        return 0;
    return (c->t->ended ? CT_CHUNK_LAST : 0u) | (c->t->sealed ? CT_CHUNK_SEALED : 0u);
}

int ct_copy_trace(struct ct_trace *t, const struct ct_copy_request *request,
                  struct ct_copied *copied, struct ct_error *error) {
    struct copy *c = ct_heap_alloc_zeroed(1, sizeof *c);
    *copied = (struct ct_copied){0};
    c->t = t;
    c->request = request;
    c->copied = copied;
    int rc = 0;
    if (request->from_ns && choose_begin(c))
        rc = -1;
    if (!rc)
        count_left_out(c);
    if (rc || (!copied->events && t->events)) {
        rc = ct_error_set(error, CT_EXIT_USAGE, "%.400s: no event is in this range of time",
                          t->source.name);
    } else {
        c->w.names = &t->definitions;
        c->w.put = request->put;
        c->w.rename = request->rename;
        c->w.user = request->user;
        c->w.rename_user = request->rename_user;
        c->w.trace_id = t->index.trace_id;
        copied->from_ns = copied->before ? request->from_ns : 0;
        ct_trace_writer_begin(&c->w);
        add_info(c);
        copy_steps(c);
        if (ct_trace_writer_end(&c->w, end_flags(c), copied->after ? 0 : t->t_last_ns)) {
            rc = -1;
            error->status = CT_EXIT_OUTPUT;
        }
    }
    ct_replay_free(&c->replay);
    ct_trace_writer_free(&c->w);
    free(c);
    return rc;
}
