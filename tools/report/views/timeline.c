// SPDX-License-Identifier: Apache-2.0
// timeline: memory over time as a plot of characters. Each column shows the least and the most of its
// stretch of time, so that no peak is lost however short it was.
#include <inttypes.h>

#include "analyze/coarse_history.h"
#include "views/common.h"

enum { ROWS = 12, LEFT = 13 };

struct glyphs {
    const char *full, *range, *untracked, *line;
};

static const struct glyphs glyphs_utf8 = {"█", "▒", "·", "─"};
static const struct glyphs glyphs_ascii = {"#", ":", ".", "-"};

// Rows (from the bottom, 0 to ROWS) that a value reaches, rounded up: what is there is seen.
static unsigned height(uint64_t value, uint64_t top) {
    return top ? (unsigned)(((unsigned __int128)value * ROWS + top - 1) / top) : 0;
}

static void put_row(struct ct_view *v, const struct ct_plot_column *c, unsigned n, unsigned row,
                    uint64_t top, uint64_t capacity) {
    const struct glyphs *g = v->term->utf8 ? &glyphs_utf8 : &glyphs_ascii;
    const unsigned limit = capacity && capacity <= top ? height(capacity, top) : ROWS + 1;
    if (row == ROWS || row == ROWS / 2 || row == 1)
        fprintf(v->out, "%*s |", LEFT - 2,
                ct_label_size(v, (uint64_t)((unsigned __int128)top * row / ROWS)).text);
    else
        fprintf(v->out, "%*s |", LEFT - 2, "");
    for (unsigned i = 0; i < n; i++) {
        const unsigned low = c[i].live_known ? height(c[i].live_min, top) : 0;
        const unsigned high = c[i].live_known ? height(c[i].live_max, top) : 0;
        const unsigned used = c[i].used_known ? height(c[i].used_max, top) : 0;
        const char *glyph = row <= low     ? g->full
                            : row <= high  ? g->range
                            : row <= used  ? g->untracked
                            : row == limit ? g->line
                                           : " ";
        fputs(glyph, v->out);
    }
    fputs(row == limit ? " capacity\n" : "\n", v->out);
}

// Which columns are from the history.
static void put_coarse(struct ct_view *v, const struct ct_plot_column *c, unsigned n) {
    int any = 0;
    for (unsigned i = 0; i < n; i++)
        any |= c[i].coarse;
    if (!any)
        return;
    fprintf(v->out, "%*s |%s", LEFT - 2, "coarse", v->term->dim);
    for (unsigned i = 0; i < n; i++)
        putc(c[i].coarse ? '~' : ' ', v->out);
    fprintf(v->out, "%s\n", v->term->reset);
}

static void put_marks(struct ct_view *v, const struct ct_plot_column *c, unsigned n) {
    unsigned any = 0;
    for (unsigned i = 0; i < n; i++)
        any |= c[i].refusals;
    if (!any)
        return;
    fprintf(v->out, "%*s |%s", LEFT - 2, "refused", v->term->red);
    for (unsigned i = 0; i < n; i++)
        putc(c[i].refusals ? 'X' : ' ', v->out);
    fprintf(v->out, "%s\n", v->term->reset);
}

static void put_plot(struct ct_view *v, const struct ct_scan *s, int device) {
    const struct ct_plot_column *c = s->plot[device];
    const struct ct_scan_request *q = &s->request;
    const struct ct_capacity capacity = ct_capacity_find(v->trace, &s->end, device);
    const uint64_t limit = v->options->capacity ? v->options->capacity : capacity.bytes;
    uint64_t top = 0;
    for (unsigned i = 0; i < q->columns; i++) {
        top = c[i].live_known && c[i].live_max > top ? c[i].live_max : top;
        top = c[i].used_known && c[i].used_max > top ? c[i].used_max : top;
    }
    // The whole device is the scale, unless that would leave most of the plot empty.
    if (limit > top && limit / 4 <= top)
        top = limit;
    else if (limit > top)
        top = top / 4 * 5;
    const struct glyphs *g = v->term->utf8 ? &glyphs_utf8 : &glyphs_ascii;
    fprintf(v->out,
            "%s%s%s, capacity %s: %s least and %s most allocated in a column, %s other use\n",
            v->term->bold, ct_label_device(device).text, v->term->reset,
            limit ? ct_label_size(v, limit).text : "-", g->full, g->range, g->untracked);
    for (unsigned row = ROWS; row > 0; row--)
        put_row(v, c, q->columns, row, top, limit);
    fprintf(v->out, "%*s +", LEFT - 2, "");
    for (unsigned i = 0; i < q->columns; i++)
        fputs(v->term->utf8 ? glyphs_utf8.line : glyphs_ascii.line, v->out);
    putc('\n', v->out);
    put_marks(v, c, q->columns);
    put_coarse(v, c, q->columns);
    fprintf(v->out, "%*s  %-*s%s\n", LEFT - 2, "", (int)q->columns - 12,
            ct_label_time(v, q->columns_from).text, ct_label_time(v, q->columns_to).text);
}

static void json_plot(struct ct_view *v, struct ct_json *j, const struct ct_scan *s, int device) {
    const struct ct_capacity capacity = ct_capacity_find(v->trace, &s->end, device);
    const struct ct_scan_request *q = &s->request;
    const uint64_t span = q->columns_to - q->columns_from + 1;
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    ct_document_add_capacity(j, &capacity);
    ct_json_open(j, "columns", '[');
    for (unsigned i = 0; i < q->columns; i++) {
        const struct ct_plot_column *c = &s->plot[device][i];
        const uint64_t t = q->columns_from + (uint64_t)((unsigned __int128)span * i / q->columns);
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "t_ns", t);
        ct_json_number_or_null(j, "live_bytes_min", c->live_known, c->live_min);
        ct_json_number_or_null(j, "live_bytes_max", c->live_known, c->live_max);
        ct_json_number_or_null(j, "used_bytes_min", c->used_known, c->used_min);
        ct_json_number_or_null(j, "used_bytes_max", c->used_known, c->used_max);
        ct_json_number(j, "refusals", c->refusals);
        ct_json_bool(j, "coarse", c->coarse);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

int ct_view_timeline(struct ct_view *v) {
    struct ct_scan s;
    struct ct_scan_request request = ct_view_scan_request(v);
    const struct ct_trace *t = v->trace;
    int any = 0;
    request.columns = v->options->json ? 500 : v->term->width - LEFT - 10;
    const uint64_t begin = ct_coarse_history_start(t);
    request.columns_from = v->from_ns > begin ? v->from_ns : begin;
    request.columns_to = v->to_ns < t->t_last_ns ? v->to_ns : t->t_last_ns;
    if (request.columns_to < request.columns_from)
        request.columns_to = request.columns_from;
    request.capacity = 0;
    ct_view_scan_run(v, &s, &request);
    for (int d = 0; d < CT_DEVICES; d++)
        if (v->options->device < 0 || v->options->device == d)
            ct_coarse_history_plot(&s, t, d);
    struct ct_json json = {.out = v->out}, *j = &json;
    if (v->options->json) {
        ct_document_begin(j, v);
        ct_document_add_trace(j, v, &s);
        ct_json_number(j, "from_ns", request.columns_from);
        ct_json_number(j, "to_ns", request.columns_to);
        ct_json_open(j, "devices", '[');
    }
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!s.device[d].seen || !s.plot[d])
            continue;
        any = 1;
        if (v->options->json)
            json_plot(v, j, &s, d);
        else
            put_plot(v, &s, d);
    }
    if (v->options->json) {
        ct_json_close(j, ']');
        ct_json_close(j, '}');
        ct_json_end_line(j);
    } else if (!any) {
        fputs("No GPU memory was allocated\n", v->out);
    } else if (t->overwritten_events) {
        fputs(ct_coarse_history_exists(t) ? "~ from the coarse history: " : "", v->out);
        ct_trace_state_print_overwritten(v);
        putc('\n', v->out);
    }
    ct_scan_free(&s);
    return CT_EXIT_OK;
}
