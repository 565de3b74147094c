// SPDX-License-Identifier: Apache-2.0
// Printing of what the views have in common.
#include "views/print.h"

#include <inttypes.h>

#include "base/elide.h"
#include "base/heap.h"
#include "base/utf8.h"

void ct_print_label(struct ct_view *v, const char *label, size_t column) {
    const size_t width = v->terminal->width;
    fputs(CT_WRAP_ROW, v->out);
    if (!v->terminal->ellipsis || column + ct_utf8_columns(label) <= width) {
        fputs(label, v->out);
        return;
    }
    char *text = ct_heap_resize(NULL, strlen(label) + 1, 1);
    memcpy(text, label, strlen(label) + 1);
    ct_elide(text, width > column ? width - column : 0, v->terminal->ellipsis);
    fputs(text, v->out);
    free(text);
}

void ct_print_name(struct ct_view *v, const char *label) {
    fprintf(v->out, CT_WRAP_NAME "%s" CT_WRAP_NAME_END, label);
}

// Describes the frames that are not shown: the number of visible ones, what the stack ends with,
// and the hidden ones.
static void describe_rest(struct ct_view *v, const struct ct_shown_frames *a, unsigned visible,
                          char *to, size_t size) {
    const char *end = ct_call_sites_end_text(&v->trace->definitions, a->stack);
    const uint32_t hidden = ct_call_sites_count_hidden(a);
    size_t at = 0;
    *to = 0;
    if (visible)
        at += (size_t)snprintf(to + at, size - at, "%u more", visible);
    else if (end)
        at += (size_t)snprintf(to + at, size - at, "%s", end);
    if (hidden)
        (void)snprintf(to + at, size - at, "%s%" PRIu32 " hidden", at ? ", " : "", hidden);
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
    fputs(CT_WRAP_HANG, v->out);
    for (unsigned i = 0; a.node && i < most; i++) {
        next_label(&a, label, sizeof label);
        fputs(i ? " <- " : "", v->out);
        ct_print_name(v, label);
    }
    describe_rest(v, &a, count_visible(a), rest, sizeof rest);
    if (*rest)
        fprintf(v->out, " ... %s", rest);
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
    describe_rest(v, &a, count_visible(a), rest, sizeof rest);
    (void)snprintf(text, sizeof text, "... %s%s", rest,
                   strstr(rest, "hidden") ? " (--all-frames)" : "");
    if (*rest)
        print_line(v, text, column, &lines);
}

static void print_not_enough(struct ct_view *v, const struct ct_oom_event *o,
                             const struct ct_oom_reason *reason) {
    const uint64_t parts[] = {reason->rounded - reason->free, reason->free}; // of the request
    struct ct_human_text shown[2];
    ct_human_bytes_of_parts(shown, parts, 2, reason->rounded, v->options->units, 0);
    fprintf(v->out, "%s more than the %s that was free", shown[0].text, shown[1].text);
    if (o->reading_known && reason->rounded > o->total)
        fputs("; the whole device is smaller", v->out);
}

static void print_budget(struct ct_view *v, const struct ct_oom_event *o) {
    const uint64_t used = o->split.used_known ? o->split.used : o->split.tracked;
    const char *source = "as read from the device";
    if (!o->split.used_known)
        source = "this process's allocations alone";
    else if (o->split.moved_on)
        source = "the last reading and the allocations since";
    if (used > v->options->capacity)
        fprintf(v->out, "%s was in use (%s), more than the budget of %s",
                ct_label_size(v, used).text, source, ct_label_budget(v).text);
    else
        fprintf(v->out, "%s of the budget of %s was in use (%s)", ct_label_size(v, used).text,
                ct_label_budget(v).text, source);
}

void ct_print_oom_reason(struct ct_view *v, const struct ct_oom_event *o,
                         const struct ct_oom_reason *reason) {
    switch (reason->kind) {
    case CT_OOM_REASON_NOT_ENOUGH_FREE:
        print_not_enough(v, o, reason);
        break;
    case CT_OOM_REASON_ENOUGH_FREE:
        fprintf(v->out,
                "%s was free in total: fragmented, needed by the driver itself, or withheld by a "
                "limit (inferred)",
                ct_label_size(v, reason->free).text);
        break;
    case CT_OOM_REASON_HOST_MEMORY:
        fputs("the request was for page-locked host memory, not for memory of the GPU", v->out);
        break;
    case CT_OOM_REASON_ADDRESS_SPACE:
        fputs("the request was for address space, not for memory", v->out);
        break;
    case CT_OOM_REASON_BUDGET:
        print_budget(v, o);
        break;
    case CT_OOM_REASON_POOL_LIMIT:
        fputs("PyTorch did not ask the driver: it has a limit of its own, such as a memory "
              "fraction (inferred)",
              v->out);
        break;
    case CT_OOM_REASON_UNKNOWN:
        fputs("free memory is not known", v->out);
        break;
    }
}

void ct_print_incident_counts(struct ct_view *v, const struct ct_incidents *n) {
    const struct ct_incident_counts c = ct_incidents_count(n);
    const char *how = c.freed == c.retried ? "freeing memory and retrying" : "retrying";
    if (!c.failed) {
        fprintf(v->out, "%zu incident%s, recovered by PyTorch %s", c.retried,
                ct_human_plural(c.retried), how);
        return;
    }
    fprintf(v->out, "%zu incident%s", c.failed, ct_human_plural(c.failed));
    if (c.recovered_later && c.failed == 1)
        fputs(", followed by a success of the same size", v->out);
    else if (c.recovered_later)
        fprintf(v->out, ", %zu followed by a success of the same size", c.recovered_later);
    if (c.retried)
        fprintf(v->out, " (%zu more recovered by PyTorch %s)", c.retried, how);
}

void ct_print_site_groups(struct ct_view *v, const struct ct_site_groups *g, uint64_t whole,
                          unsigned rows) {
    const size_t shown = g->count <= rows + 1u ? g->count : rows;
    const size_t n = shown + (g->count > shown); // with the row of the rest
    uint64_t *bytes = ct_heap_alloc_zeroed(n, sizeof *bytes), rest = 0;
    struct ct_human_text *sizes = ct_heap_resize(NULL, n, sizeof *sizes),
                         *shares = ct_heap_resize(NULL, n, sizeof *shares);
    for (size_t i = 0; i < g->count; i++) {
        bytes[i < shown ? i : shown] += g->list[i].bytes;
        rest += i < shown ? 0 : g->list[i].count;
    }
    const size_t residual = shown;
    ct_human_bytes_of_parts(sizes, bytes, n, whole, v->options->units, residual);
    ct_human_percent_of_parts(shares, bytes, n, whole, residual);
    fprintf(v->out, "  %s%12s %8s %9s  call site%s\n", v->terminal->dim, "bytes", "share", "count",
            v->terminal->reset);
    for (size_t i = 0; i < n; i++) {
        fprintf(v->out, "  %12s %8s %9s  ", sizes[i].text, shares[i].text,
                ct_human_count(i < shown ? g->list[i].count : rest).text);
        if (i < shown)
            ct_print_label(v, g->list[i].label, 35);
        else
            fprintf(v->out, "%zu more call sites", g->count - shown);
        putc('\n', v->out);
    }
    free(bytes);
    free(sizes);
    free(shares);
}
