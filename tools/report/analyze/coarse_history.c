// SPDX-License-Identifier: Apache-2.0
// Fills the gaps that overwritten events leave in a plot and in a summary from the cells of the
// coarse history.
#include "analyze/coarse_history.h"

#include <cutrace/format/assert.h>

#include "base/heap.h"

int ct_coarse_history_exists(const struct ct_trace *t) {
    return t->history && t->history->cells && t->overwritten_events;
}

uint64_t ct_coarse_history_start(const struct ct_trace *t) {
    if (ct_coarse_history_exists(t) && t->history->start_ns < t->t_first_ns)
        return t->history->start_ns;
    return t->t_first_ns;
}

static int has_quantity(const struct ct_history_cell *c, unsigned quantity) {
    return c->known >> quantity & 1;
}

struct ct_coarse_summary ct_coarse_history_summarize(const struct ct_trace *t, int device) {
    struct ct_coarse_summary sum = {0};
    for (uint32_t i = 0; ct_coarse_history_exists(t) && i < t->history->cells; i++) {
        const struct ct_history_cell *c = &t->history->cell[i];
        if ((int)c->device != device)
            continue;
        sum.ooms += c->ooms;
        if (!has_quantity(c, CT_QUANTITY_ALLOCATED) ||
            (sum.known && c->curve[CT_QUANTITY_ALLOCATED].max <= sum.peak_bytes))
            continue;
        sum.known = 1;
        sum.peak_bytes = c->curve[CT_QUANTITY_ALLOCATED].max;
        sum.peak_ns = t->history->start_ns + c->bucket * t->history->width_ns;
        sum.peak_width_ns = t->history->width_ns;
    }
    return sum;
}

// ---- the plot -----------------------------------------------------------------------------------

// Returns whether exact events cover a part of [from, to); sets *whole if they cover all of it.
// Exact events begin with the trace's first chunk or after an exact checkpoint, and end where
// chunks were overwritten.
static int is_covered(const struct ct_trace *t, uint64_t from, uint64_t to, int *whole) {
    uint64_t start = t->index.chunks[0].gap ? UINT64_MAX : 0;
    int any = 0;
    *whole = 0;
    for (size_t i = 0; i < t->index.count; i++) {
        const struct ct_index_chunk *c = &t->index.chunks[i];
        if (c->reset)
            start = UINT64_MAX;
        if (c->completes && !(c->checkpoint & CT_CHECKPOINT_INEXACT))
            start = ct_index_first_ns(&t->index, i);
        const int ends = i + 1 == t->index.count || c[1].overwritten;
        if (!ends || start == UINT64_MAX)
            continue;
        const uint64_t end = i + 1 == t->index.count ? UINT64_MAX : ct_index_last_ns(&t->index, i);
        any |= from < end && to > start;
        *whole |= from >= start && to <= end;
    }
    return any;
}

static void widen(int *known, uint64_t *min, uint64_t *max, const struct ct_history_curve *curve) {
    *min = *known && *min < curve->min ? *min : curve->min;
    *max = *known && *max > curve->max ? *max : curve->max;
    *known = 1;
}

static void add_cell(struct ct_plot_column *column, const struct ct_history_cell *c) {
    if (has_quantity(c, CT_QUANTITY_ALLOCATED))
        widen(&column->live_known, &column->live_min, &column->live_max,
              &c->curve[CT_QUANTITY_ALLOCATED]);
    if (has_quantity(c, CT_QUANTITY_USED))
        widen(&column->used_known, &column->used_min, &column->used_max,
              &c->curve[CT_QUANTITY_USED]);
}

// Adds the values with which a cell ended: they hold until the next cell begins.
static void add_last_of(struct ct_plot_column *column, const struct ct_history_cell *c) {
    struct ct_history_cell last = *c;
    for (size_t i = 0; i < sizeof last.curve / sizeof *last.curve; i++)
        last.curve[i].min = last.curve[i].max = last.curve[i].last;
    add_cell(column, &last);
}

// Adds the cells that reach into a column, and the last value before them. Cells are in the order
// of time.
static void add_history(struct ct_plot_column *column, const struct ct_history *h, int device,
                        uint64_t from, uint64_t to) {
    const struct ct_history_cell *before = NULL;
    for (uint32_t i = 0; i < h->cells; i++) {
        const struct ct_history_cell *c = &h->cell[i];
        const uint64_t begin = h->start_ns + c->bucket * h->width_ns;
        if ((int)c->device != device || begin >= to)
            continue;
        CT_ASSERT(!before || before->bucket < c->bucket);
        if (begin + h->width_ns <= from) {
            before = c;
            continue;
        }
        if (before)
            add_last_of(column, before);
        add_cell(column, c);
        column->ooms += begin >= from ? (uint32_t)c->ooms : 0;
        before = NULL;
        column->coarse = 1;
    }
    if (before) {
        add_last_of(column, before);
        column->coarse = 1;
    }
}

void ct_coarse_history_plot(struct ct_scan *s, const struct ct_trace *t, int device) {
    const struct ct_scan_request *q = &s->request;
    const uint64_t span = q->columns_to - q->columns_from + 1;
    if (!ct_coarse_history_summarize(t, device).known)
        return;
    if (!s->plot[device])
        s->plot[device] = ct_heap_alloc_zeroed(q->columns, sizeof **s->plot);
    s->device[device].seen = 1;
    for (unsigned i = 0; i < q->columns; i++) {
        const uint64_t from =
            q->columns_from + (uint64_t)((unsigned __int128)span * i / q->columns);
        const uint64_t to =
            q->columns_from + (uint64_t)((unsigned __int128)span * (i + 1) / q->columns);
        int whole;
        const int any = is_covered(t, from, to, &whole);
        if (whole)
            continue;
        struct ct_plot_column *column = &s->plot[device][i];
        const struct ct_plot_column events = *column;
        if (!any)
            *column = (struct ct_plot_column){0};
        add_history(column, t->history, device, from, to);
        // The history ends with the last checkpoint: where events count more failures, they are the
        // better source.
        if (!column->coarse || (any && column->ooms < events.ooms))
            *column = events;
    }
}
