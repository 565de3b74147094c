// SPDX-License-Identifier: Apache-2.0
#include "read/trace_part.h"

#include <cutrace/model/checkpoint.h>
#include <stdlib.h>

#include "base/heap.h"
#include "read/digest.h"
#include "read/trace_headers.h"

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
