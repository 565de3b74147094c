// SPDX-License-Identifier: Apache-2.0
#include "views/quick.h"

#include "print/document.h"
#include "read/event_names.h"

static void add_state(struct ct_json *j, const struct ct_quick *q) {
    const struct ct_trace *t = &q->trace;
    const struct ct_recorder_notes *n = &q->notes;
    ct_json_bool(j, "whole", q->is_whole);
    ct_json_bool(j, "has_end", t->ended || t->sealed);
    ct_json_number(j, "events", t->events);
    ct_json_number(j, "unnoted_events", n->unnoted_events);
    ct_json_number(j, "overwritten_events", t->overwritten_events);
    ct_json_number(j, "chunks", n->chunks);
    ct_json_number(j, "noted_chunks", n->noted);
    ct_document_add_extent(j, t);
}

static void add_counts(struct ct_json *j, const struct ct_recorder_notes *n) {
    ct_json_number(j, "lost_events", n->lost);
    ct_json_number(j, "failed_frees", n->failed_frees);
    ct_json_open(j, "operations", '[');
    for (unsigned op = 0; op < CT_DIGEST_OPS; op++) {
        if (!n->ops[op])
            continue;
        ct_json_open(j, NULL, '{');
        ct_document_add_name(j, "op", ct_event_names_op(op), op);
        ct_json_number(j, "events", n->ops[op]);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_open(j, "failed_requests", '{');
    ct_json_number(j, "count", n->failed);
    ct_json_open(j, "first_events", '[');
    for (uint64_t i = 0; i < n->failed && i < CT_NOTED_FAILED; i++)
        ct_json_number(j, NULL, n->failed_event[i]);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

static void add_peak(struct ct_json *j, const struct ct_noted_device *d) {
    if (!ct_json_open_or_null(j, "peak", d->has_peak, '{'))
        return;
    ct_json_number(j, "bytes", d->peak_bytes);
    ct_json_bool(j, "exact", d->peak_is_exact);
    ct_json_number_or_null(j, "event", d->peak_bytes != 0, d->peak_event);
    ct_json_number_or_null(j, "t_ns", d->peak_bytes != 0, d->peak_ns);
    ct_json_close(j, '}');
}

static void add_reading(struct ct_json *j, const char *key, int known,
                        const struct ct_digest_reading *r) {
    if (!ct_json_open_or_null(j, key, known, '{'))
        return;
    ct_json_number(j, "free_bytes", r->free);
    ct_json_number(j, "total_bytes", r->total);
    ct_json_number(j, "t_ns", r->t_ns);
    ct_json_close(j, '}');
}

static void add_reported(struct ct_json *j, const struct ct_noted_device *d) {
    if (!ct_json_open_or_null(j, "pytorch", d->has_reported, '{'))
        return;
    ct_json_number(j, "allocated_bytes", d->allocated);
    ct_json_number(j, "reserved_bytes", d->reserved);
    ct_json_number(j, "most_allocated_bytes", d->most_allocated);
    ct_json_number(j, "most_allocated_event", d->most_allocated_event);
    ct_json_number(j, "most_reserved_bytes", d->most_reserved);
    ct_json_number(j, "most_reserved_event", d->most_reserved_event);
    ct_json_close(j, '}');
}

static void add_growth(struct ct_json *j, const struct ct_recorder_notes *n, int device) {
    ct_json_open(j, "growth", '[');
    for (unsigned i = 0; i < n->columns; i++) {
        const struct ct_noted_column *c = &n->column[i];
        ct_json_number_or_null(j, NULL, c->without < c->chunks, c->most[device]);
    }
    ct_json_close(j, ']');
}

static void add_devices(struct ct_json *j, const struct ct_quick *q) {
    const struct ct_recorder_notes *n = &q->notes;
    ct_json_open(j, "devices", '[');
    for (int i = 0; i < CT_DEVICES; i++) {
        const struct ct_noted_device *d = &n->device[i];
        if (!d->seen)
            continue;
        ct_json_open(j, NULL, '{');
        ct_document_add_device(j, "device", i);
        add_peak(j, d);
        ct_json_number_or_null(j, "live_bytes", n->live_is_known && !n->failed_frees,
                               d->live_bytes);
        add_reading(j, "least_free", d->has_lowest, &d->lowest);
        add_reading(j, "last_reading", d->has_last, &d->last);
        add_reported(j, d);
        add_growth(j, n, i);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_columns(struct ct_json *j, const struct ct_recorder_notes *n) {
    ct_json_number_or_null(j, "live_t_ns", n->live_ns != 0, n->live_ns);
    ct_json_open(j, "columns", '[');
    for (unsigned i = 0; i < n->columns; i++) {
        const struct ct_noted_column *c = &n->column[i];
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "chunks", c->chunks);
        ct_json_number(j, "noted_chunks", c->chunks - c->without);
        ct_json_number_or_null(j, "t_last_ns", c->end_ns != 0, c->end_ns);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_sites(struct ct_json *j, const struct ct_quick *q) {
    enum { MOST = 64 };
    const size_t most = q->view.options->top ? q->view.options->top : MOST;
    ct_json_open(j, "call_sites", '{');
    ct_json_text(j, "figure", q->has_gained ? "gained" : "taken_at_least");
    ct_json_number(j, "unnamed", q->unnamed);
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < q->groups.count && i < most; i++) {
        const struct ct_site_group *g = &q->groups.list[i];
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "site", g->label);
        ct_json_number(j, "bytes", g->bytes);
        ct_json_number(j, "count", g->count);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

void ct_summary_quick_print_json(struct ct_quick *q) {
    struct ct_json json = {.out = stdout}, *j = &json;
    ct_document_begin(j, &q->view);
    add_state(j, q);
    add_counts(j, &q->notes);
    add_devices(j, q);
    add_columns(j, &q->notes);
    add_sites(j, q);
    ct_json_number(j, "estimate_ns", q->estimate_ns);
    ct_document_end(j);
}
