// SPDX-License-Identifier: Apache-2.0
// A replay knows what is live from the start of the process on, and after a gap from the end of an
// exact checkpoint on. Before that its figures are lower than the recorder's, which knew all. So a
// peak that the recorder noted there is only a bound.
#include "read/recorder_notes.h"

#include <cutrace/model/checkpoint.h>
#include <stdlib.h>

#include "base/heap.h"
#include "read/index.h"

struct notes_pass {
    struct ct_recorder_notes *n;
    struct ct_trace *t;
    struct ct_header_names *names; // or NULL
    struct ct_digest digest;       // of the current chunk
    int is_known;                  // what is live before the chunk
    int has_unknown;               // it was not for some chunk, which had no notes
    struct ct_map sites;           // generation << 32 | id -> position + 1
    uint64_t generation;           // counted; 0: of named stacks
};

// ---- call sites ---------------------------------------------------------------------------------

static void add_site(struct notes_pass *p, const struct ct_digest_site *site) {
    struct ct_recorder_notes *n = p->n;
    const uint32_t id = site->stack;
    const uint32_t stack =
        id && p->names->is_whole ? ct_definitions_id(&p->t->definitions, CT_SECTION_STACKS, id) : 0;
    const int is_named = !id || stack;
    uint64_t *at = ct_map_add(&p->sites, is_named ? stack : p->generation << 32 | id);
    if (!*at) {
        CT_HEAP_GROW(n->site, n->sites, n->site_room);
        n->site[n->sites++] = (struct ct_noted_site){.is_named = is_named, .stack = stack};
        *at = n->sites;
    }
    ct_digest_flow_join(&n->site[*at - 1].flow, &site->flow);
}

static void add_sites(struct notes_pass *p) {
    const struct ct_digest *g = &p->digest;
    for (uint32_t i = 0; i < g->sites; i++)
        add_site(p, &g->site[i]);
    ct_digest_flow_join(&p->n->rest, &g->rest);
    p->n->with_rest += g->rest.taken.count || g->rest.given.count;
}

// ---- devices ------------------------------------------------------------------------------------

static void add_peak(struct ct_noted_device *to, const struct ct_digest_device *d, int is_known) {
    if (is_known && d->has_peak && (!to->has_peak || d->peak_bytes > to->peak_bytes)) {
        to->has_peak = 1;
        to->peak_bytes = d->peak_bytes;
        to->peak_event = d->peak_event;
        to->peak_ns = d->peak_ns;
    }
    // (without a peak it is what was live before the chunk)
    if ((!is_known || !d->has_peak) && d->peak_bytes > to->bound)
        to->bound = d->peak_bytes;
}

static void add_readings(struct ct_noted_device *to, const struct ct_digest_device *d) {
    if (d->has_lowest && (!to->has_lowest || d->lowest.free < to->lowest.free)) {
        to->lowest = d->lowest;
        to->has_lowest = 1;
    }
    if (d->has_last) {
        to->last = d->last;
        to->has_last = 1;
    }
}

static void add_reported(struct ct_noted_device *to, const struct ct_digest_device *d) {
    if (!d->has_reported)
        return;
    if (!to->has_reported || d->most_allocated > to->most_allocated) {
        to->most_allocated = d->most_allocated;
        to->most_allocated_event = d->most_allocated_event;
    }
    if (!to->has_reported || d->most_reserved > to->most_reserved) {
        to->most_reserved = d->most_reserved;
        to->most_reserved_event = d->most_reserved_event;
    }
    to->allocated = d->allocated;
    to->reserved = d->reserved;
    to->has_reported = 1;
}

static void add_devices(struct notes_pass *p, struct ct_noted_column *column) {
    for (int i = 0; i < CT_DEVICES; i++) {
        struct ct_noted_device *to = &p->n->device[i];
        const struct ct_digest_device *d = &p->digest.device[i];
        to->seen |= ct_digest_device_is_used(d);
        to->live_bytes = d->live_bytes;
        add_peak(to, d, p->is_known);
        add_readings(to, d);
        add_reported(to, d);
        if (d->peak_bytes > column->most[i])
            column->most[i] = d->peak_bytes;
    }
}

// ---- chunks -------------------------------------------------------------------------------------

static void add_counts(struct ct_recorder_notes *n, const struct ct_digest *g) {
    for (unsigned op = 0; op < CT_DIGEST_OPS; op++)
        n->ops[op] += g->ops[op];
    n->lost += g->lost;
    n->failed_frees += g->failed_frees;
    for (uint64_t i = 0; i < g->failed && i < CT_DIGEST_FAILED; i++)
        if (n->failed + i < CT_NOTED_FAILED)
            n->failed_event[n->failed + i] = g->failed_event[i];
    n->failed += g->failed;
}

static void note_without(struct notes_pass *p, const struct ct_chunk *head) {
    struct ct_recorder_notes *n = p->n;
    n->unnoted_events += head->events;
    if (!head->events)
        return;
    if (!n->unnoted_from_ns || head->t_first_ns < n->unnoted_from_ns)
        n->unnoted_from_ns = head->t_first_ns;
    if (head->t_last_ns > n->unnoted_to_ns)
        n->unnoted_to_ns = head->t_last_ns;
}

// Whether a replay knows all that is live before the events of a chunk.
static int is_known(const struct notes_pass *p, const struct ct_index_chunk *c, int is_first) {
    if (c->completes)
        return !(c->checkpoint & CT_CHECKPOINT_INEXACT);
    if (is_first)
        return !c->gap && !c->head.first_event;
    return p->is_known && !c->gap && !c->reset;
}

static struct ct_noted_column *find_column(struct ct_recorder_notes *n, size_t chunk) {
    return &n->column[chunk * n->columns / n->chunks];
}

static void read_chunk(struct notes_pass *p, size_t chunk) {
    const struct ct_index_chunk *c = &p->t->index.chunks[chunk];
    struct ct_recorder_notes *n = p->n;
    struct ct_noted_column *column = find_column(n, chunk);
    struct ct_digest_body body;
    const char *what;
    p->is_known = is_known(p, c, !chunk);
    column->chunks++;
    column->end_ns = c->head.events ? c->head.t_last_ns : column->end_ns;
    if (p->names)
        ct_trace_headers_define(p->t, p->names, chunk);
    p->generation += !chunk || c->head.dict_seq != c[-1].head.dict_seq;
    if (ct_digest_read(&p->t->source, c, &p->digest, &body, &what) <= 0) {
        column->without++;
        note_without(p, &c->head);
        return;
    }
    n->noted++;
    n->live_is_known = p->is_known;
    n->live_ns = c->head.events ? c->head.t_last_ns : n->live_ns;
    add_counts(n, &p->digest);
    add_devices(p, column);
    if (p->names)
        add_sites(p);
}

// A peak is exact if all chunks have notes, no free counted that had failed, and nothing higher was
// noted where not all is known. Nothing was ever live if all is known and there is no peak.
static void finish_peaks(struct notes_pass *p) {
    struct ct_recorder_notes *n = p->n;
    const int is_whole = ct_recorder_notes_are_whole(n, p->t) && !n->failed_frees;
    for (int i = 0; i < CT_DEVICES; i++) {
        struct ct_noted_device *d = &n->device[i];
        d->peak_is_exact = is_whole && d->bound <= d->peak_bytes;
        if (!d->has_peak && d->peak_is_exact)
            d->has_peak = d->seen;
    }
}

void ct_recorder_notes_read(struct ct_recorder_notes *n, struct ct_trace *t,
                            struct ct_header_names *names) {
    struct notes_pass *p = ct_heap_alloc_zeroed(1, sizeof *p);
    *n = (struct ct_recorder_notes){.chunks = t->index.count};
    *p = (struct notes_pass){.n = n, .t = t, .names = names};
    n->columns = n->chunks < CT_NOTED_COLUMNS ? (unsigned)n->chunks : CT_NOTED_COLUMNS;
    for (size_t i = 0; i < n->chunks; i++)
        read_chunk(p, i);
    finish_peaks(p);
    ct_map_free(&p->sites);
    free(p);
    if (names)
        ct_trace_headers_end_names(t);
}

int ct_recorder_notes_are_whole(const struct ct_recorder_notes *n, const struct ct_trace *t) {
    return n->noted == n->chunks && !t->index.missing && !t->index.damages && !t->missing_events;
}

int ct_recorder_notes_main_device(const struct ct_recorder_notes *n) {
    int best = -1;
    for (int i = 0; i < CT_DEVICES; i++)
        if (n->device[i].seen && (best < 0 || n->device[i].peak_bytes > n->device[best].peak_bytes))
            best = i;
    return best;
}

void ct_recorder_notes_free(struct ct_recorder_notes *n) {
    free(n->site);
    *n = (struct ct_recorder_notes){.chunks = 0};
}
