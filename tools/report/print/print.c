// SPDX-License-Identifier: Apache-2.0
// Printing of what the views have in common.
#include "print/print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "base/wrap.h"
#include "print/trace_state.h"

// ---- memory that slept --------------------------------------------------------------------------
// The call site stays that of the first owner; the resumer follows it.

enum { LABEL = 400 };

void ct_resumed_label(struct ct_view *v, const struct ct_site_group *g, char *to, size_t size) {
    char by[LABEL] = "unknown code";
    if (!g->resumed_bytes) {
        (void)snprintf(to, size, "%s", g->label);
        return;
    }
    if (g->resumed_by)
        ct_call_sites_label(v->sites, g->resumed_by, by, sizeof by);
    if (g->resumed_bytes == g->bytes)
        (void)snprintf(to, size, "%s, resumed by %s", g->label, by);
    else
        (void)snprintf(to, size, "%s, %s of it resumed by %s", g->label,
                       ct_label_size(v, g->resumed_bytes).text, by);
}

void ct_resumed_add_json(struct ct_json *j, struct ct_view *v, uint64_t bytes, uint32_t by) {
    char label[LABEL];
    const int known = bytes && by;
    ct_json_number(j, "resumed_bytes", bytes);
    if (known)
        ct_call_sites_label(v->sites, by, label, sizeof label);
    ct_json_text_or_null(j, "resumed_by", known ? label : NULL);
    ct_call_sites_json_stack(j, v->sites, "resumed_stack", known ? by : 0);
}

void ct_print_moment(struct ct_view *v, const struct ct_moment *m) {
    static const char *const words[] = {"at the OOM, at", "at the peak, at", "at the end, at",
                                        "at"};
    fprintf(v->out, "%s %s%s", words[m->kind], ct_label_time(v, m->t_ns).text,
            ct_trace_state_doubt(v, m->t_ns).text);
}

const char *ct_print_height(const struct ct_view *v, uint64_t value, uint64_t top) {
    static const char *const utf8[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {".", ":", "-", "=", "+", "*", "%", "#"};
    const unsigned __int128 step = (unsigned __int128)value * 8 / (top ? top : 1);
    return (v->terminal->utf8 ? utf8 : ascii)[step < 8 ? (unsigned)step : 7];
}

void ct_print_label(struct ct_view *v, const char *label, size_t column) {
    const size_t width = v->terminal->width;
    fputs(CT_WRAP_ROW, v->out);
    if (!v->terminal->ellipsis || column + ct_utf8_columns(label) <= width) {
        fputs(label, v->out);
        return;
    }
    char *text = ct_heap_copy_text(label);
    ct_elide(text, width > column ? width - column : 0, v->terminal->ellipsis);
    fputs(text, v->out);
    free(text);
}

void ct_print_name(struct ct_view *v, const char *label) {
    fprintf(v->out, CT_WRAP_NAME "%s" CT_WRAP_NAME_END, label);
}

// Prints the callers that are not shown, or what the stack ends with, if there are any.
static void describe_rest(struct ct_view *v, const struct ct_shown_frames *a, unsigned callers,
                          char *to, size_t size) {
    const char *end = ct_call_sites_end_text(&v->trace->definitions, a->stack);
    *to = 0;
    if (callers)
        (void)snprintf(to, size, "<- %u more", callers);
    else if (end)
        (void)snprintf(to, size, "... %s", end);
}

static unsigned count_visible(struct ct_shown_frames a) {
    unsigned n = 0;
    for (; a.node; ct_call_sites_next_frame(&a))
        n++;
    return n;
}

// Returns the label of a frame, and how often the frame repeats (a recursion); moves on to the next
// frame.
static void next_label(struct ct_shown_frames *a, char *to, size_t size) {
    const struct ct_call_tree_node *nodes = a->sites->definitions->nodes;
    const struct ct_shown_frames first = *a;
    unsigned times = 0;
    ct_call_sites_shown_label(a, to, size - 24);
    for (; a->node && nodes[a->node].frame == nodes[first.node].frame &&
           a->location == first.location;
         ct_call_sites_next_frame(a))
        times++;
    const size_t n = strlen(to);
    if (times > 1)
        (void)snprintf(to + n, size - n, " (%u times)", times);
}

void ct_print_callers(struct ct_view *v, uint32_t stack, unsigned most) {
    char label[400], rest[100];
    struct ct_shown_frames a = ct_call_sites_shown_frames(v->sites, stack);
    for (unsigned i = 0; a.node && i < most; i++) {
        next_label(&a, label, sizeof label);
        fputs(i ? " <- " : "", v->out);
        ct_print_name(v, label);
    }
    describe_rest(v, &a, count_visible(a), rest, sizeof rest);
    if (*rest)
        fprintf(v->out, " %s", rest);
}

static void print_line(struct ct_view *v, const char *text, size_t column, unsigned *lines) {
    if ((*lines)++)
        fprintf(v->out, "\n%*s", (int)column, "");
    ct_print_label(v, text, column);
}

void ct_print_stack(struct ct_view *v, uint32_t stack, unsigned most, size_t column) {
    char text[400], rest[100];
    struct ct_shown_frames a = ct_call_sites_shown_frames(v->sites, stack);
    unsigned lines = 0;
    while (a.node && (lines < most || v->sites->all_frames)) {
        next_label(&a, text, sizeof text);
        print_line(v, text, column, &lines);
    }
    const uint32_t hidden = ct_call_sites_count_hidden(&a);
    describe_rest(v, &a, count_visible(a), rest, sizeof rest);
    if (*rest)
        print_line(v, rest, column, &lines);
    (void)snprintf(text, sizeof text, "(%" PRIu32 " frame%s of libraries hidden: --all-frames)",
                   hidden, ct_human_plural(hidden));
    if (hidden)
        print_line(v, text, column, &lines);
}

// The row of a group: the last one that is shown for the marked one, where that comes later.
static size_t find_row(size_t group, size_t shown, size_t marked) {
    if (marked < shown || !shown)
        return group < shown ? group : shown;
    return group == marked ? shown - 1 : group + 1 < shown ? group : shown;
}

void ct_print_site_groups(struct ct_view *v, const struct ct_site_groups *g, uint64_t whole,
                          unsigned rows, size_t marked) {
    const size_t shown = g->count <= rows + 1u ? g->count : rows;
    const size_t n = shown + (g->count > shown); // with the row of the rest
    uint64_t *bytes = ct_heap_alloc_zeroed(n, sizeof *bytes), rest = 0;
    size_t *group_of = ct_heap_alloc_zeroed(n, sizeof *group_of);
    struct ct_human_text *sizes = ct_heap_resize(NULL, n, sizeof *sizes),
                         *shares = ct_heap_resize(NULL, n, sizeof *shares);
    for (size_t i = 0; i < g->count; i++) {
        const size_t row = find_row(i, shown, marked < g->count ? marked : 0);
        bytes[row] += g->list[i].bytes;
        rest += row < shown ? 0 : g->list[i].count;
        group_of[row] = i;
    }
    const size_t residual = shown;
    char label[1600];
    ct_human_bytes_of_parts(sizes, bytes, n, whole, v->options->units, residual);
    ct_human_percent_of_parts(shares, bytes, n, whole, residual);
    fprintf(v->out, "  %s%12s %8s %9s  call site%s\n", v->terminal->dim, "bytes", "share", "count",
            v->terminal->reset);
    for (size_t i = 0; i < n; i++) {
        const struct ct_site_group *group = &g->list[group_of[i]];
        fprintf(v->out, "  %12s %8s %9s  ", sizes[i].text, shares[i].text,
                ct_human_count(i < shown ? group->count : rest).text);
        if (i < shown) {
            ct_resumed_label(v, group, label, sizeof label - 20);
            if (group_of[i] == marked)
                (void)strcat(label, " (of the verdict)");
            ct_print_label(v, label, 35);
        } else {
            fprintf(v->out, "%zu more call sites", g->count - shown);
        }
        putc('\n', v->out);
    }
    free(bytes);
    free(group_of);
    free(sizes);
    free(shares);
}

// ---- marks of the program -----------------------------------------------------------------------

enum { TEXT_MARKS = 8 };

void ct_program_marks_print(struct ct_view *v, const struct ct_program_marks *m) {
    const unsigned most = v->options->top ? v->options->top : TEXT_MARKS;
    uint64_t said = 0;
    unsigned shown = 0;
    char label[160];
    if (!m->count)
        return;
    fprintf(v->out, "%smarks of the program%s\n", v->terminal->bold, v->terminal->reset);
    for (unsigned i = 0; i < CT_PROGRAM_MARKS && shown < most; i++) {
        if (!m->part[i].count)
            continue;
        ct_program_marks_label(m, &m->part[i], label, sizeof label);
        fprintf(v->out, "  %12s  " CT_WRAP_HANG "%s\n", ct_label_time(v, m->part[i].t_ns).text,
                label);
        said += m->part[i].count;
        shown++;
    }
    if (said < m->count)
        fprintf(v->out, "  and %s more\n", ct_human_count(m->count - said).text);
}

void ct_print_row(struct ct_view *v, const char *what, uint64_t bytes, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(v->out, "  %-16s %12s  " CT_WRAP_HANG, what, ct_label_size(v, bytes).text);
    (void)vfprintf(v->out, format, list);
    va_end(list);
}
