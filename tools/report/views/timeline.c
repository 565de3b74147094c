// SPDX-License-Identifier: Apache-2.0
// timeline: memory over time as a plot of characters. Each column shows the least and the most of
// its stretch of time, so that even the shortest peak is visible.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/coarse_history.h"
#include "analyze/program_marks.h"
#include "base/heap.h"
#include "print/document.h"
#include "print/label.h"
#include "print/print.h"
#include "print/trace_state.h"
#include "read/device_kind.h"
#include "views/neighbours.h"
#include "views/views.h"

enum { ROWS = 12, PROCESS_ROWS = 3 };

// What the view notes besides the scan's own figures.
struct notes {
    struct ct_neighbours neighbours;
    struct ct_program_marks marks;
};

// What the view shows.
struct timeline {
    struct ct_scan scan;
    struct notes notes;
};

// Returns the columns left of the plot: a size, and the axis.
static int left_of(const struct ct_view *v) {
    return v->options->units == CT_UNITS_BYTES ? 20 : 13;
}

struct glyphs {
    const char *full, *range, *untracked, *line;
};

static const struct glyphs glyphs_utf8 = {"█", "▒", "·", "─"};
static const struct glyphs glyphs_ascii = {"#", ":", ".", "-"};

// Returns the rows (from the bottom, 0 to ROWS) that a value reaches, rounded up so that no value
// disappears.
static unsigned height_of(uint64_t value, uint64_t top) {
    return top ? (unsigned)(((unsigned __int128)value * ROWS + top - 1) / top) : 0;
}

// What the line in the plot stands for.
static const char *limit_name(const struct ct_view *v) {
    return v->options->capacity ? " budget" : " capacity";
}

static void print_row(struct ct_view *v, const struct ct_plot_column *c, unsigned n, unsigned row,
                      uint64_t top, uint64_t capacity) {
    const struct glyphs *g = v->terminal->utf8 ? &glyphs_utf8 : &glyphs_ascii;
    const unsigned limit = capacity && capacity <= top ? height_of(capacity, top) : ROWS + 1;
    if (row == ROWS || row == ROWS / 2 || row == 1)
        fprintf(v->out, "%*s |", left_of(v) - 2,
                ct_label_size(v, (uint64_t)((unsigned __int128)top * row / ROWS)).text);
    else
        fprintf(v->out, "%*s |", left_of(v) - 2, "");
    for (unsigned i = 0; i < n; i++) {
        const unsigned low = c[i].live_known ? height_of(c[i].live_min, top) : 0;
        const unsigned high = c[i].live_known ? height_of(c[i].live_max, top) : 0;
        const unsigned used = c[i].used_known ? height_of(c[i].used_max, top) : 0;
        const char *glyph = " ";
        if (row <= low)
            glyph = g->full;
        else if (row <= high)
            glyph = g->range;
        else if (row <= used)
            glyph = g->untracked;
        else if (row == limit)
            glyph = g->line;
        fputs(glyph, v->out);
    }
    fputs(row == limit ? limit_name(v) : "", v->out);
    putc('\n', v->out);
}

static int has_oom(const struct ct_plot_column *c) {
    return c->ooms != 0;
}
static int is_unknown(const struct ct_plot_column *c) { // events are missing
    return !c->live_known;
}
static int is_coarse(const struct ct_plot_column *c) {
    return c->coarse;
}
static int has_asleep(const struct ct_plot_column *c) {
    return c->asleep_max != 0;
}

// Prints a row that marks the columns of a kind, if there are any.
static void print_marked(struct ct_view *v, const struct ct_plot_column *c, unsigned n,
                         const char *name, const char *colour, char mark,
                         int (*is)(const struct ct_plot_column *c)) {
    int any = 0;
    for (unsigned i = 0; i < n; i++)
        any |= is(&c[i]);
    if (!any)
        return;
    fprintf(v->out, "%*s |%s", left_of(v) - 2, name, colour);
    for (unsigned i = 0; i < n; i++)
        putc(is(&c[i]) ? mark : ' ', v->out);
    fprintf(v->out, "%s\n", *colour ? v->terminal->reset : "");
}

// Says how much of PyTorch's blocks sleeps at most, below the row that marks when.
static void print_asleep(struct ct_view *v, const struct ct_plot_column *c, unsigned n) {
    uint64_t most = 0;
    for (unsigned i = 0; i < n; i++)
        most = c[i].asleep_max > most ? c[i].asleep_max : most;
    if (most)
        fprintf(v->out, "%*s  z: up to %s of PyTorch's blocks sleep (unmapped)\n", left_of(v) - 2,
                "", ct_label_size(v, most).text);
}

// Marks the columns in which marks of the program lie: all of them, whatever their device.
static void print_marks(struct ct_view *v, const struct ct_program_marks *m, unsigned n) {
    const unsigned __int128 span = m->to_ns - m->from_ns + 1;
    char *row = ct_heap_alloc_zeroed(n + 1, 1);
    if (!m->count) {
        free(row);
        return;
    }
    memset(row, ' ', n);
    for (unsigned i = 0; i < CT_PROGRAM_MARKS; i++)
        if (m->part[i].count)
            row[(size_t)((m->part[i].t_ns - m->from_ns) * (unsigned __int128)n / span)] = 'M';
    fprintf(v->out, "%*s |%s\n", left_of(v) - 2, "marks", row);
    free(row);
}

// What of a device a process holds, as the height of a character.
static const char *glyph_of(const struct ct_view *v, uint64_t value, uint64_t top) {
    if (value == CT_NEIGHBOUR_UNSAID)
        return "?";
    if (!CT_NEIGHBOUR_IS_BYTES(value) || !value || !top)
        return " ";
    return ct_print_height(v, value, top);
}

// When a column ends.
static uint64_t end_of(const struct ct_scan_request *q, unsigned column) {
    const uint64_t span = q->columns_to - q->columns_from + 1;
    return q->columns_from + (uint64_t)((unsigned __int128)span * (column + 1) / q->columns) - 1;
}

// Prints a row for each process that held the most besides this one.
static void print_processes(struct ct_view *v, const struct timeline *t, int device, uint64_t top) {
    const struct ct_scan_request *q = &t->scan.request;
    size_t count;
    const struct ct_neighbour **list =
        ct_neighbours_most(&t->notes.neighbours, device, PROCESS_ROWS, &count);
    for (size_t i = 0; i < count; i++) {
        fprintf(v->out, "%*s %zu |", left_of(v) - 4, "process", i + 1);
        for (unsigned c = 0; c < q->columns; c++)
            fputs(glyph_of(v, ct_neighbour_at(list[i], end_of(q, c)), top), v->out);
        putc('\n', v->out);
    }
    free(list);
}

// Says what these processes are.
static void print_names(struct ct_view *v, const struct timeline *t, int device, uint64_t top) {
    char label[CT_NEIGHBOUR_LABEL], growth[CT_NEIGHBOUR_GROWTH];
    size_t count;
    const struct ct_neighbour **list =
        ct_neighbours_most(&t->notes.neighbours, device, PROCESS_ROWS, &count);
    for (size_t i = 0; i < count; i++) {
        ct_neighbour_label(&v->trace->definitions, list[i], label);
        ct_neighbour_growth(v, list[i], t->scan.request.columns_to, top, growth);
        fprintf(v->out, "%*s  process %zu by NVML: " CT_WRAP_HANG "%s%s, up to %s%s%s\n",
                left_of(v) - 2, "", i + 1, label,
                list[i]->whose == CT_NEIGHBOUR_UNKNOWN ? " (it may be this one)" : "",
                ct_label_size(v, ct_neighbour_most(list[i])).text, *growth ? ", " : "", growth);
    }
    free(list);
}

// Returns the value of the plot's upper edge. The whole device is the scale, unless that would
// leave most of the plot empty.
static uint64_t find_top(const struct ct_plot_column *c, unsigned n, uint64_t limit) {
    uint64_t top = 0;
    for (unsigned i = 0; i < n; i++) {
        top = c[i].live_known && c[i].live_max > top ? c[i].live_max : top;
        top = c[i].used_known && c[i].used_max > top ? c[i].used_max : top;
    }
    if (limit <= top)
        return top;
    return limit / 4 <= top ? limit : top / 4 * 5;
}

static void print_plot(struct ct_view *v, const struct timeline *t, int device) {
    const struct ct_scan *s = &t->scan;
    const struct ct_plot_column *c = s->plot[device];
    const struct ct_scan_request *q = &s->request;
    const struct ct_capacity capacity = ct_capacity_find(v->trace, &s->end, device);
    const uint64_t limit = v->options->capacity ? v->options->capacity : capacity.bytes;
    const uint64_t top = find_top(c, q->columns, limit);
    const struct glyphs *g = v->terminal->utf8 ? &glyphs_utf8 : &glyphs_ascii;
    struct ct_human_text shown = {"-"};
    if (v->options->capacity)
        shown = ct_label_budget(v);
    else if (limit)
        shown = ct_label_size(v, limit);
    const struct ct_device_kind is = ct_device_kind_read(&v->trace->definitions, device);
    fprintf(v->out, "%s%s%s,%s %s: %s least and %s most allocated in a column, %s %s\n",
            v->terminal->bold, ct_label_device_in_full(v, device, NULL).text, v->terminal->reset,
            limit_name(v), shown.text, g->full, g->range, g->untracked,
            is.is_shared_with_host ? "other use, by the host, too" : "other use");
    for (unsigned row = ROWS; row > 0; row--)
        print_row(v, c, q->columns, row, top, limit);
    fprintf(v->out, "%*s +", left_of(v) - 2, "");
    for (unsigned i = 0; i < q->columns; i++)
        fputs(g->line, v->out);
    putc('\n', v->out);
    print_marked(v, c, q->columns, "OOM", v->terminal->red, 'X', has_oom);
    print_marks(v, &t->notes.marks, q->columns);
    print_marked(v, c, q->columns, "not known", "", '?', is_unknown);
    print_marked(v, c, q->columns, "coarse", v->terminal->dim, '~', is_coarse);
    print_marked(v, c, q->columns, "asleep", v->terminal->dim, 'z', has_asleep);
    print_asleep(v, c, q->columns);
    print_processes(v, t, device, limit ? limit : top);
    const struct ct_human_text start = ct_label_time(v, q->columns_from),
                               end = ct_label_time(v, q->columns_to);
    const size_t last = strlen(end.text) > 12 ? strlen(end.text) : 12;
    const size_t gap = strlen(start.text) + 2;
    fprintf(v->out, "%*s  %-*s%s\n", left_of(v) - 2, "",
            (int)(q->columns > last + gap ? q->columns - last : gap), start.text, end.text);
    print_names(v, t, device, limit ? limit : top);
}

// What each process held at the end of each column; null: not listed then, or not said.
static void add_processes(struct ct_view *v, struct ct_json *j, const struct timeline *t,
                          int device) {
    const struct ct_scan_request *q = &t->scan.request;
    if (!ct_json_open_or_null(j, "processes", t->notes.neighbours.device[device].has_list, '['))
        return;
    for (size_t i = 0; i < t->notes.neighbours.count; i++) {
        const struct ct_neighbour *p = &t->notes.neighbours.list[i];
        if (p->device != device)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number_or_null(j, "pid", p->pid != 0, p->pid);
        ct_document_add_string(j, "name", &v->trace->definitions.strings[p->name]);
        ct_json_text(j, "whose", ct_neighbour_whose_name(p->whose));
        ct_json_open(j, "bytes", '[');
        for (unsigned c = 0; c < q->columns; c++) {
            const uint64_t value = ct_neighbour_at(p, end_of(q, c));
            ct_json_number_or_null(j, NULL, CT_NEIGHBOUR_IS_BYTES(value), value);
        }
        ct_json_close(j, ']');
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_plot(struct ct_view *v, struct ct_json *j, const struct timeline *of, int device) {
    const struct ct_scan *s = &of->scan;
    const struct ct_capacity capacity = ct_capacity_find(v->trace, &s->end, device);
    const struct ct_device_kind kind = ct_device_kind_read(&v->trace->definitions, device);
    const struct ct_scan_request *q = &s->request;
    const uint64_t span = q->columns_to - q->columns_from + 1;
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    ct_document_add_capacity(j, &capacity);
    ct_document_add_kind(j, &kind);
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
        ct_json_number_or_null(j, "asleep_bytes_max", c->live_known && !c->coarse, c->asleep_max);
        ct_json_number(j, "oom_count", c->ooms);
        ct_json_bool(j, "coarse", c->coarse);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    add_processes(v, j, of, device);
    ct_json_close(j, '}');
}

static struct ct_scan_request request_of(const struct ct_view *v) {
    const struct ct_trace *t = v->trace;
    struct ct_scan_request request = ct_view_scan_request(v);
    request.columns = v->options->json ? 500 : v->terminal->width - (unsigned)left_of(v) - 10;
    const uint64_t start = ct_coarse_history_start(t);
    request.columns_from = v->from_ns > start ? v->from_ns : start;
    request.columns_to = v->to_ns < t->t_last_ns ? v->to_ns : t->t_last_ns;
    if (request.columns_to < request.columns_from)
        request.columns_to = request.columns_from;
    request.capacity = 0;
    request.blocks = 1; // they say what sleeps
    return request;
}

static void print_text(struct ct_view *v, const struct timeline *t) {
    const struct ct_scan *s = &t->scan;
    int any = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!s->device[d].seen || !s->plot[d])
            continue;
        any = 1;
        print_plot(v, t, d);
    }
    ct_program_marks_print(v, &t->notes.marks);
    if (!any) {
        ct_trace_state_print_unallocated(v, s->lost);
    } else if (v->trace->overwritten_events) {
        fputs(ct_coarse_history_exists(v->trace) ? "~ from the coarse history: " : "", v->out);
        ct_trace_state_print_overwritten(v);
        putc('\n', v->out);
    }
}

static void add_marks(struct ct_view *v, struct ct_json *j, const struct ct_program_marks *m) {
    const struct ct_definitions *n = &v->trace->definitions;
    ct_json_number(j, "mark_count", m->count);
    ct_json_open(j, "marks", '[');
    for (unsigned i = 0; i < CT_PROGRAM_MARKS; i++) {
        const struct ct_program_mark *mark = &m->part[i];
        if (!mark->count)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "t_ns", mark->t_ns);
        ct_json_number(j, "event", mark->event);
        ct_json_number_or_null(j, "tid", mark->thread != 0, n->threads[mark->thread].tid);
        ct_document_add_string(j, "text", &n->strings[mark->text]);
        ct_document_add_string(j, "domain", &n->strings[mark->domain]);
        ct_json_number(j, "count", mark->count);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void print_json(struct ct_view *v, const struct timeline *t) {
    const struct ct_scan *s = &t->scan;
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, s);
    ct_json_number_or_null(j, "budget_bytes", v->options->capacity != 0, v->options->capacity);
    ct_json_number(j, "from_ns", s->request.columns_from);
    ct_json_number(j, "to_ns", s->request.columns_to);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->device[d].seen && s->plot[d])
            add_plot(v, j, t, d);
    ct_json_close(j, ']');
    add_marks(v, j, &t->notes.marks);
    ct_document_end(j);
}

// ---- notes --------------------------------------------------------------------------------------

static void note_event(void *user, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    struct notes *n = user;
    ct_neighbours_note(&n->neighbours, r, ct_event_device_index(e), e);
    ct_program_marks_note(&n->marks, e, number);
}

// ---- all ----------------------------------------------------------------------------------------

int ct_view_timeline(struct ct_view *v) {
    struct timeline t = {.notes = {.neighbours = {0}}};
    struct ct_scan_request request = request_of(v);
    ct_program_marks_init(&t.notes.marks, &v->trace->definitions, request.columns_from,
                          request.columns_to);
    ct_view_scan_run(v, &t.scan, &request,
                     &(struct ct_listener){.self = &t.notes, .after = note_event});
    ct_neighbours_identify(&t.notes.neighbours, &v->trace->definitions);
    for (int d = 0; d < CT_DEVICES; d++)
        if (v->options->device < 0 || v->options->device == d)
            ct_coarse_history_plot(&t.scan, v->trace, d);
    if (v->options->json)
        print_json(v, &t);
    else
        print_text(v, &t);
    ct_scan_free(&t.scan);
    ct_neighbours_free(&t.notes.neighbours);
    return CT_EXIT_OK;
}
