// SPDX-License-Identifier: Apache-2.0
// stats: sizes and lifetimes of allocations and blocks, the most frequent sizes, and the calls.
#include "sites/allocation_stats.h"

#include <inttypes.h>
#include <string.h>

#include "print/document.h"
#include "print/print.h"
#include "print/trace_state.h"
#include "read/event_names.h"
#include "views/views.h"

enum { SIZES_SHOWN = 5, BAR = 39 };

static const char *const kind_names[CT_STATS_KINDS] = {"allocations", "blocks"};

// ---- text ---------------------------------------------------------------------------------------

// Prints a bar on a logarithmic scale, by the bits of the number: BAR columns for the most.
static void print_bar(struct ct_view *v, uint64_t count, uint64_t most) {
    unsigned bits = 0, all = 0;
    for (uint64_t n = count; n; n >>= 1)
        bits++;
    for (uint64_t n = most; n; n >>= 1)
        all++;
    const unsigned width = all ? (bits * BAR + all - 1) / all : 0;
    for (unsigned i = 0; i < width; i++)
        fputs(v->terminal->utf8 ? "▇" : "#", v->out);
}

struct bars {
    const struct ct_stats_bar *list;
    unsigned n;
    struct ct_human_text (*label)(const struct ct_view *v, unsigned i);
    const char *heading;
};

static struct ct_human_text label_size(const struct ct_view *v, unsigned i) {
    return ct_human_format("from %.30s", ct_label_size(v, i ? UINT64_C(1) << (i - 1) : 0).text);
}

static struct ct_human_text label_lifetime(const struct ct_view *v, unsigned i) {
    static const char *const names[CT_STATS_LIFETIMES] = {
        "< 1 us", "< 10 us", "< 100 us", "< 1 ms",   "< 10 ms",    "< 100 ms",
        "< 1 s",  "< 10 s",  "< 100 s",  "< 1000 s", "< 10 000 s", "longer"};
    (void)v;
    return ct_human_format("%s", names[i]);
}

static uint64_t find_most(const struct bars *b) {
    uint64_t most = 0;
    for (unsigned i = 0; i < b->n; i++)
        most = b->list[i].count > most ? b->list[i].count : most;
    return most;
}

// Rows without anything are left out; between others "..." stands for them.
static void print_bars(struct ct_view *v, const struct bars *b) {
    const uint64_t most = find_most(b);
    unsigned before = b->n; // the row that was printed last
    fprintf(v->out, "%s%15s %10s %12s  (bars: logarithm of the count)%s\n", v->terminal->dim,
            b->heading, "count", "bytes", v->terminal->reset);
    for (unsigned i = 0; i < b->n; i++) {
        if (!b->list[i].count)
            continue;
        if (before < b->n && i > before + 1)
            fprintf(v->out, "%15s\n", "...");
        fprintf(v->out, "%15s %10s %12s  ", b->label(v, i).text,
                ct_human_count(b->list[i].count).text, ct_label_size(v, b->list[i].bytes).text);
        print_bar(v, b->list[i].count, most);
        putc('\n', v->out);
        before = i;
    }
}

static void print_sizes(struct ct_view *v, const struct ct_object_stats *s) {
    const size_t most = v->options->top ? v->options->top : SIZES_SHOWN;
    fputs("  most bytes in one size: " CT_WRAP_HANG, v->out);
    for (size_t i = 0; i < s->size_count && i < most; i++)
        fprintf(v->out, "%s%s x %s", i ? "; " : "", ct_label_size(v, s->by_size[i].size).text,
                ct_human_count(s->by_size[i].count).text);
    if (s->size_count > most)
        fprintf(v->out, " (%zu more size%s)", s->size_count - most,
                ct_human_plural(s->size_count - most));
    putc('\n', v->out);
}

static void print_objects(struct ct_view *v, int device, enum ct_stats_kind kind,
                          const struct ct_object_stats *s) {
    static const char *const names[] = {"allocations of the driver", "PyTorch's blocks"};
    const struct bars sizes = {s->sizes, CT_STATS_SIZES, label_size, "size"};
    const struct bars lifetimes = {s->lifetimes, CT_STATS_LIFETIMES, label_lifetime, "lifetime"};
    fprintf(v->out, "%s, %s\n  %s allocated (%s), %s freed (%s), %s live at the end (%s)\n",
            ct_label_device_in_full(v, device, NULL).text, names[kind],
            ct_human_count(s->allocated.count).text, ct_label_size(v, s->allocated.bytes).text,
            ct_human_count(s->freed.count).text, ct_label_size(v, s->freed.bytes).text,
            ct_human_count(s->live.count).text, ct_label_size(v, s->live.bytes).text);
    if (s->size_count)
        print_sizes(v, s);
    if (s->allocated.count)
        print_bars(v, &sizes);
    if (s->freed.count)
        print_bars(v, &lifetimes);
}

static void print_calls(struct ct_view *v, const struct ct_allocation_stats *s) {
    char api[80], text[140];
    fprintf(v->out, "%s%10s %8s %12s %12s %12s  function%s\n", v->terminal->dim, "calls", "failed",
            "bytes", "time", "longest", v->terminal->reset);
    for (size_t i = 0; i < s->call_count; i++) {
        const struct ct_call_stats *c = &s->calls[i];
        const char *op = ct_event_names_op(c->op);
        ct_label_api(v, c->api, api, sizeof api);
        (void)snprintf(text, sizeof text, "%s (%s%s)", api, op ? op : "?",
                       c->timed && c->timed < c->count ? "; not all were timed" : "");
        fprintf(v->out, "%10s %8s %12s %12s %12s  ", ct_human_count(c->count).text,
                c->failed ? ct_human_count(c->failed).text : "-",
                c->bytes ? ct_label_size(v, c->bytes).text : "-",
                c->timed ? ct_human_duration(c->duration_ns).text : "-",
                c->timed ? ct_human_duration(c->longest_ns).text : "-");
        ct_print_label(v, text, 60);
        putc('\n', v->out);
    }
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_bar(struct ct_json *j, const char *key, const struct ct_stats_bar *b) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "count", b->count);
    ct_json_number(j, "bytes", b->bytes);
    ct_json_close(j, '}');
}

// The first bar begins at 0, the second at `first`, each other at `times` the one before it.
static void add_bars(struct ct_json *j, const char *from, const struct ct_stats_bar *list,
                     unsigned n, uint64_t first, unsigned times) {
    uint64_t bound = 0;
    for (unsigned i = 0; i < n; i++, bound = bound ? bound * times : first) {
        if (!list[i].count)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, from, bound);
        ct_json_number(j, "count", list[i].count);
        ct_json_number(j, "bytes", list[i].bytes);
        ct_json_close(j, '}');
    }
}

static void add_objects(struct ct_view *v, struct ct_json *j, const char *key,
                        const struct ct_object_stats *s) {
    ct_json_open(j, key, '{');
    add_bar(j, "allocated", &s->allocated);
    add_bar(j, "freed", &s->freed);
    add_bar(j, "live", &s->live);
    ct_json_open(j, "sizes", '[');
    add_bars(j, "from_bytes", s->sizes, CT_STATS_SIZES, 1, 2);
    ct_json_close(j, ']');
    ct_json_open(j, "lifetimes", '[');
    add_bars(j, "from_ns", s->lifetimes, CT_STATS_LIFETIMES, 1000, 10);
    ct_json_close(j, ']');
    ct_json_open(j, "top_sizes", '[');
    for (size_t i = 0; i < s->size_count && (!v->options->top || i < v->options->top); i++) {
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "bytes", s->by_size[i].size);
        ct_json_number(j, "count", s->by_size[i].count);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

static void add_call(struct ct_view *v, struct ct_json *j, const struct ct_call_stats *c) {
    ct_json_open(j, NULL, '{');
    ct_document_add_string(j, "api", &v->trace->definitions.strings[c->api]);
    ct_document_add_name(j, "op", ct_event_names_op(c->op), c->op);
    ct_json_number(j, "count", c->count);
    ct_json_number(j, "failed_count", c->failed);
    ct_json_number(j, "oom_count", c->out_of_memory);
    ct_json_number(j, "bytes", c->bytes);
    ct_json_number(j, "timed_count", c->timed);
    ct_json_number_or_null(j, "duration_ns", c->timed != 0, c->duration_ns);
    ct_json_number_or_null(j, "longest_ns", c->timed != 0, c->longest_ns);
    ct_json_close(j, '}');
}

static int is_seen(const struct ct_object_stats *s) {
    return s->allocated.count || s->freed.count || s->live.count;
}

static void print_json(struct ct_view *v, const struct ct_allocation_stats *s) {
    struct ct_json json = {.out = v->out}, *j = &json;
    const struct ct_scan lost = {.lost = s->lost};
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, &lost);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!is_seen(&s->of[d][CT_STATS_ALLOCATIONS]) && !is_seen(&s->of[d][CT_STATS_BLOCKS]))
            continue;
        ct_json_open(j, NULL, '{');
        ct_document_add_device(j, "ordinal", d);
        for (unsigned kind = 0; kind < CT_STATS_KINDS; kind++)
            add_objects(v, j, kind_names[kind], &s->of[d][kind]);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_open(j, "calls", '[');
    for (size_t i = 0; i < s->call_count; i++)
        add_call(v, j, &s->calls[i]);
    ct_json_close(j, ']');
    ct_document_end(j);
}

static void warn_unknown_device(const struct ct_view *v, const struct ct_allocation_stats *s) {
    const int device = v->options->device;
    char text[100];
    if (device < 0 || s->call_count || is_seen(&s->of[device][CT_STATS_ALLOCATIONS]) ||
        is_seen(&s->of[device][CT_STATS_BLOCKS]))
        return;
    (void)snprintf(text, sizeof text, "warning: --device=%d: no event is of this GPU", device);
    ct_terminal_warn(text);
}

int ct_view_stats(struct ct_view *v) {
    struct ct_allocation_stats s;
    const struct ct_stats_request request = {v->from_ns, v->to_ns, v->options->device};
    int any = 0;
    ct_allocation_stats_read(&s, v->trace, &request);
    warn_unknown_device(v, &s);
    if (v->options->json) {
        print_json(v, &s);
    } else {
        for (int d = 0; d < CT_DEVICES; d++)
            for (unsigned kind = 0; kind < CT_STATS_KINDS; kind++)
                if (is_seen(&s.of[d][kind]) && ++any)
                    print_objects(v, d, (enum ct_stats_kind)kind, &s.of[d][kind]);
        if (!any)
            ct_trace_state_print_unallocated(v, s.lost);
        if (s.call_count)
            print_calls(v, &s);
    }
    ct_allocation_stats_free(&s);
    return CT_EXIT_OK;
}
