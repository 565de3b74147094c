// SPDX-License-Identifier: Apache-2.0
// Looks into the coarse history where events were overwritten.
#include "analyze/coarse_history.h"

#include "base/heap.h"

int ct_coarse_history_exists(const struct ct_trace *t) {
    return t->history && t->history->cells && t->overwritten_events;
}

uint64_t ct_coarse_history_start(const struct ct_trace *t) {
    const int before = ct_coarse_history_exists(t) && t->history->start_ns < t->t_first_ns;
    return before ? t->history->start_ns : t->t_first_ns;
}

struct ct_coarse_summary ct_coarse_history_summarize(const struct ct_trace *t, int device) {
    struct ct_coarse_summary p = {0};
    for (uint32_t i = 0; ct_coarse_history_exists(t) && i < t->history->cells; i++) {
        const struct ct_history_cell *c = &t->history->cell[i];
        if ((int)c->device != device)
            continue;
        p.refused += c->ooms;
        if (!(c->known >> CT_QUANTITY_ALLOCATED & 1) ||
            (p.known && c->curve[CT_QUANTITY_ALLOCATED].max <= p.peak_bytes))
            continue;
        p.known = 1;
        p.peak_bytes = c->curve[CT_QUANTITY_ALLOCATED].max;
        p.peak_ns = t->history->start_ns + c->bucket * t->history->width_ns;
        p.peak_width_ns = t->history->width_ns;
    }
    return p;
}

// ---- the plot --------------------------------------------------------------------------------------

// Whether events tell of a part of [from, to), and (whole) of all of it, exactly.
static int covered(const struct ct_trace *t, uint64_t from, uint64_t to, int *whole) {
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

static void add_cell(struct ct_plot_column *column, const struct ct_history_cell *c,
                     int only_last) {
    const struct ct_history_curve live = c->curve[CT_QUANTITY_ALLOCATED],
                                  used = c->curve[CT_QUANTITY_USED];
    const struct ct_history_curve live_last = {live.last, live.last, live.last},
                                  used_last = {used.last, used.last, used.last};
    if (c->known >> CT_QUANTITY_ALLOCATED & 1)
        widen(&column->live_known, &column->live_min, &column->live_max,
              only_last ? &live_last : &live);
    if (c->known >> CT_QUANTITY_USED & 1)
        widen(&column->used_known, &column->used_min, &column->used_max,
              only_last ? &used_last : &used);
}

// The cells that reach into a column, and what was before them.
static void fill(struct ct_plot_column *column, const struct ct_history *h, int device,
                 uint64_t from, uint64_t to) {
    const struct ct_history_cell *before = NULL;
    for (uint32_t i = 0; i < h->cells; i++) {
        const struct ct_history_cell *c = &h->cell[i];
        const uint64_t begin = h->start_ns + c->bucket * h->width_ns;
        if ((int)c->device != device || begin >= to)
            continue;
        if (begin + h->width_ns <= from) {
            before = c; // in the order of time
            continue;
        }
        if (before) // until something happens in this one
            add_cell(column, before, 1);
        add_cell(column, c, 0);
        column->refusals += begin >= from ? (uint32_t)c->ooms : 0;
        before = NULL;
        column->coarse = 1;
    }
    if (before) {
        add_cell(column, before, 1);
        column->coarse = 1;
    }
}

void ct_coarse_history_plot(struct ct_scan *s, const struct ct_trace *t, int device) {
    const struct ct_scan_request *q = &s->request;
    const uint64_t span = q->columns_to - q->columns_from + 1;
    const struct ct_coarse_summary past = ct_coarse_history_summarize(t, device);
    if (!past.known)
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
        const int any = covered(t, from, to, &whole);
        if (whole)
            continue;
        struct ct_plot_column *column = &s->plot[device][i];
        const struct ct_plot_column events = *column;
        if (!any)
            *column = (struct ct_plot_column){0};
        fill(column, t->history, device, from, to);
        if (!column->coarse || (any && column->refusals < events.refusals))
            *column = events;
    }
}
