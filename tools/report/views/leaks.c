// SPDX-License-Identifier: Apache-2.0
// leaks: call sites whose memory only grows, up to a moment; what has filled to a bound; a pool of
// PyTorch's that grows without need; and untracked memory that grows.
#include "views/steps.h"

#include "base/wrap.h"
#include "diagnose/verdicts.h"
#include "print/document.h"
#include "print/label.h"
#include "print/print.h"
#include "print/table.h"
#include "print/trace_state.h"
#include "print/untracked.h"
#include "question/pass.h"
#include "views/views.h"

#define HOUR UINT64_C(3600000000000)

enum { USUAL_ROWS = 10, FILLED_ROWS = 3 };

static struct ct_human_text duration_of(uint64_t ns) {
    return ns ? ct_human_seconds(ns) : (struct ct_human_text){"0 s"};
}

static const struct ct_site_group *group_of(const struct ct_leaks *l, const struct ct_leak *k) {
    return &l->groups.list[k->group];
}

// ---- text: untracked memory that grows ----------------------------------------------------------

static const char *const part_names[CT_MEASURED_PARTS] = {
    [CT_MEASURED_CONTEXTS] = "contexts",
    [CT_MEASURED_MODULES] = "modules",
    [CT_MEASURED_LIMITS] = "limits",
    [CT_MEASURED_GRAPHS] = "graph executables",
};

// Prints what a growth that is none any more is: " stopped growing at ...; it grew since ...", or
// that it slows down, `like` what. The end of a line.
static void print_bounded(struct ct_view *v, const struct ct_growth_shape *s, const char *like) {
    if (s->is_slowing)
        fprintf(v->out, " grows more and more slowly since %s%s\n",
                ct_label_time(v, s->since_ns).text, like);
    else
        fprintf(v->out, " stopped growing at %s; it grew since %s\n",
                ct_label_time(v, s->filled_ns).text, ct_label_time(v, s->since_ns).text);
}

static void print_subject(struct ct_view *v, const struct ct_untracked_growth *g) {
    fputs(g->is_own ? "untracked memory of this process"
                    : "untracked memory, of this process or of others,",
          v->out);
}

// Prints "; of this 1.20 GiB graph executables, 300.00 MiB of no measured call".
static void print_untracked_parts(struct ct_view *v, const struct ct_untracked_growth *g) {
    uint64_t left = g->shape.kept_bytes;
    const char *before = "; of this ";
    for (unsigned i = 0; i < CT_MEASURED_PARTS && g->measured_known; i++) {
        if (!g->measured[i])
            continue;
        fprintf(v->out, "%s%s %s", before, ct_label_size(v, g->measured[i]).text, part_names[i]);
        left -= g->measured[i];
        before = ", ";
    }
    if (left && left < g->shape.kept_bytes)
        fprintf(v->out, ", %s of no measured call", ct_label_size(v, left).text);
}

static void print_untracked_growing(struct ct_view *v, const struct ct_leaks *l, int is_full) {
    const struct ct_untracked_growth *g = &l->untracked;
    const struct ct_growth_shape *s = &g->shape;
    uint64_t ns;
    print_subject(v, g);
    fprintf(v->out, " grows: %s since %s (+%s per hour, %s, %s), to %s at %s",
            ct_label_size(v, s->kept_bytes).text, ct_label_time(v, s->since_ns).text,
            ct_label_size(v, ct_growth_shape_in(s, HOUR)).text, ct_growth_kind_name(s->kind),
            ct_sureness_name(s->confidence), ct_label_size(v, g->bytes).text,
            ct_label_time(v, g->read_ns).text);
    print_untracked_parts(v, g);
    if (!is_full && ct_leaks_count(l) > 1 && ct_leaks_full_in(l, s, &ns) && ns)
        fprintf(v->out, "; alone, it fills the device in %s", ct_human_seconds(ns).text);
    putc('\n', v->out);
}

// Prints a line that says how it grows, that it has filled, or that there is too little to tell;
// none where it does not grow or is not known. `is_full`: the device is full at the moment.
static void print_untracked(struct ct_view *v, const struct ct_leaks *l, int is_full) {
    const struct ct_untracked_growth *g = &l->untracked;
    const struct ct_growth_shape *s = &g->shape;
    if (ct_growth_kind_is_leak(s->kind)) {
        print_untracked_growing(v, l, is_full);
    } else if (s->kind == CT_GROWTH_KIND_SATURATING) {
        fputs("bounded: ", v->out);
        print_subject(v, g);
        print_bounded(v, s, "");
    } else if (s->kind == CT_GROWTH_KIND_UNTOLD && !ct_leaks_is_too_short(l)) {
        fputs("too little to tell: ", v->out);
        print_subject(v, g);
        fprintf(v->out,
                " has grown by %s: seen for too short a time, or lost events would explain "
                "it\n",
                ct_label_size(v, s->kept_bytes).text);
    }
}

// Prints up to when it is known, as a part of a line: "; untracked memory: ..."; nothing where that
// is the moment.
static void print_untracked_known(struct ct_view *v, const struct ct_leaks *l) {
    const struct ct_untracked_growth *g = &l->untracked;
    if (!g->known)
        fputs("; untracked memory is not known", v->out);
    else if (g->read_ns < l->to_ns - (l->to_ns - l->from_ns) / 16)
        fprintf(v->out, "; untracked memory is known up to %s", ct_label_time(v, g->read_ns).text);
}

// ---- text: what grows ---------------------------------------------------------------------------

static const struct ct_table_column columns[] = {
    {"live", 0, CT_TABLE_RIGHT},          {"count", 8, CT_TABLE_RIGHT},
    {"growing since", 3, CT_TABLE_RIGHT}, {"per hour", 0, CT_TABLE_RIGHT},
    {"never freed", 5, CT_TABLE_RIGHT},   {"oldest", 7, CT_TABLE_RIGHT},
    {"median", 9, CT_TABLE_RIGHT},        {"full in", 6, CT_TABLE_RIGHT},
    {"shape", 4, CT_TABLE_LEFT},          {"how sure", 2, CT_TABLE_LEFT},
    {"call site", 0, CT_TABLE_LABEL},
};

static struct ct_human_text format_age(const struct ct_leaks *l, uint64_t t_ns) {
    if (!t_ns || t_ns > l->to_ns)
        return ct_human_format("-");
    return duration_of(l->to_ns - t_ns);
}

static struct ct_human_text format_full(const struct ct_leaks *l, const struct ct_leak *k) {
    uint64_t ns;
    return ct_leaks_full_in(l, &k->shape, &ns) ? duration_of(ns) : ct_human_format("-");
}

static void add_row(struct ct_view *v, struct ct_table *t, const struct ct_leaks *l,
                    const struct ct_leak *k) {
    const struct ct_site_group *g = group_of(l, k);
    char label[1600];
    ct_resumed_label(v, g, label, sizeof label);
    ct_table_add_row(
        t, ct_label_size(v, g->bytes).text, ct_human_count(g->count).text,
        ct_label_time(v, k->shape.since_ns).text,
        ct_human_format("+%.38s", ct_label_size(v, ct_growth_shape_in(&k->shape, HOUR)).text).text,
        ct_human_format("%.17s of %.17s", ct_human_count(k->never_freed_count).text,
                        ct_human_count(g->growth.taken_count).text)
            .text,
        format_age(l, g->growth.oldest_ns).text, format_age(l, k->median_ns).text,
        format_full(l, k).text, ct_growth_kind_name(k->shape.kind),
        ct_sureness_name(k->shape.confidence), label, NULL);
}

static void print_growing(struct ct_view *v, const struct ct_leaks *l) {
    const size_t rows = v->options->top ? v->options->top : USUAL_ROWS;
    struct ct_table table;
    ct_table_init(&table, columns, sizeof columns / sizeof *columns, 0);
    for (size_t i = 0; i < l->growing_count && i < rows; i++)
        add_row(v, &table, l, &l->growing[i]);
    ct_table_print(v, &table);
    if (l->growing_count > rows)
        fprintf(v->out, "%zu more; --top %zu shows all\n", l->growing_count - rows,
                l->growing_count);
}

static void print_full(struct ct_view *v, const struct ct_leaks *l) {
    if (!ct_leaks_count(l))
        return;
    fputs("full: ", v->out);
    if (!l->free_known)
        fputs("- (how much of the device was free is not known)\n", v->out);
    else
        fprintf(v->out, "%s%s at %s; %s was free%s%s%s\n", l->full_known ? "in " : "",
                l->full_known ? duration_of(l->full_in_ns).text : "-",
                ct_leaks_count(l) > 1 ? "these rates together" : "this rate",
                ct_label_size(v, l->free_bytes).text, l->idle_bytes ? ", and " : "",
                l->idle_bytes ? ct_label_size(v, l->idle_bytes).text : "",
                l->idle_bytes ? " idle in PyTorch's pool" : "");
}

// ---- text: what does not ------------------------------------------------------------------------

static void print_filled(struct ct_view *v, const struct ct_leaks *l) {
    for (size_t i = 0; i < l->filled_count && i < FILLED_ROWS; i++) {
        const struct ct_growth_shape *s = &l->filled[i].shape;
        const struct ct_site_group *g = group_of(l, &l->filled[i]);
        fprintf(v->out, "bounded: %s " CT_WRAP_NAME "%s" CT_WRAP_NAME_END,
                ct_label_size(v, g->bytes).text, g->label);
        print_bounded(v, s, ", as a cache does");
    }
    if (l->filled_count > FILLED_ROWS)
        fprintf(v->out, "bounded: %zu more call sites have filled, or slow down\n",
                l->filled_count - FILLED_ROWS);
}

static void print_pool(struct ct_view *v, const struct ct_leaks *l) {
    const struct ct_leaks_pool *p = &l->pool;
    if (!p->is_fragmenting)
        return;
    fprintf(
        v->out,
        "fragmentation: PyTorch's pool has grown by %s since %s (+%s per hour) to %s, while its "
        "blocks filled at most %s before and %s since; see frag\n",
        ct_label_size(v, p->shape.kept_bytes).text, ct_label_time(v, p->shape.since_ns).text,
        ct_label_size(v, ct_growth_shape_in(&p->shape, HOUR)).text,
        ct_label_size(v, p->reserved).text, ct_label_size(v, p->most_before).text,
        ct_label_size(v, p->most_since).text);
}

static void print_untold(struct ct_view *v, const struct ct_leaks *l) {
    if (l->untold_count && !ct_leaks_is_too_short(l))
        fprintf(v->out,
                "too little to tell: %zu call site%s with %s: seen for too short a time, or lost "
                "frees or an earlier flush would explain it\n",
                l->untold_count, ct_human_plural(l->untold_count),
                ct_label_size(v, l->untold_bytes).text);
}

static void print_title(struct ct_view *v, int device, const struct ct_leaks *l,
                        const struct ct_moment *m, const struct ct_replay *end) {
    const int is_short = ct_leaks_is_too_short(l);
    fprintf(v->out, "%s%s%s: ", v->terminal->bold, ct_label_device_in_full(v, device, end).text,
            v->terminal->reset);
    if (l->growing_count)
        fprintf(v->out, "%zu call site%s", l->growing_count,
                l->growing_count == 1 ? " grows" : "s grow");
    else if (is_short)
        fprintf(v->out, "too short to tell whether a call site grows: %s of at least %s",
                duration_of(l->to_ns > l->from_ns ? l->to_ns - l->from_ns : 0).text,
                duration_of(l->shortest_ns).text);
    else
        fprintf(v->out, "no call site grows%s", ct_trace_state_until(v).text);
    if (ct_growth_kind_is_leak(l->untracked.shape.kind))
        fprintf(v->out, ", %s untracked memory does", l->growing_count ? "and" : "but");
    fprintf(v->out, "; %s live ", ct_label_size(v, l->live_bytes).text);
    ct_print_moment(v, m);
    putc('\n', v->out);
}

// Which time was judged, and what is known of it.
static void print_window(struct ct_view *v, const struct ct_leaks *l) {
    int is_coarse = 0;
    for (size_t i = 0; i < l->growing_count; i++)
        is_coarse |= l->growing[i].past == CT_LEAK_PAST_COARSE;
    fprintf(
        v->out, "%sjudged: from %s%s to %s", v->terminal->dim, ct_label_time(v, l->from_ns).text,
        l->is_start_up_known ? ", the end of the start-up," : "", ct_label_time(v, l->to_ns).text);
    if (l->exact_from_ns)
        fprintf(v->out, "; what was freed before %s is %s", ct_label_time(v, l->exact_from_ns).text,
                is_coarse ? "bounded by the coarse history" : "not known");
    print_untracked_known(v, l);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void print_device(struct ct_view *v, int device, const struct ct_leaks *l,
                         const struct ct_moment *m, const struct ct_replay *end) {
    print_title(v, device, l, m, end);
    if (l->growing_count)
        print_growing(v, l);
    if (m->kind != CT_MOMENT_OOM) // it is full
        print_full(v, l);
    print_pool(v, l);
    print_untracked(v, l, m->kind == CT_MOMENT_OOM);
    print_filled(v, l);
    print_untold(v, l);
    print_window(v, l);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_shape(struct ct_json *j, const struct ct_growth_shape *s) {
    const int is_leak = ct_growth_kind_is_leak(s->kind),
              is_any = is_leak || s->kind == CT_GROWTH_KIND_SATURATING;
    ct_json_text(j, "shape", ct_growth_kind_name(s->kind));
    ct_json_number_or_null(j, "since_t_ns", is_any, s->since_ns);
    ct_json_number_or_null(j, "filled_t_ns", s->filled_ns != 0, s->filled_ns);
    ct_json_number_or_null(j, "kept_bytes", is_any, s->kept_bytes);
    ct_json_number_or_null(j, "bytes_per_hour", is_leak, ct_growth_shape_in(s, HOUR));
    ct_json_number_or_null(j, "steps", is_leak, s->steps);
    if (is_leak)
        ct_json_ratio(j, "confidence", (uint64_t)(s->confidence * 10000 + 0.5), 10000);
    else
        ct_json_null(j, "confidence");
}

// Adds `full_in_ns`: when it alone would have filled the device.
static void add_full(struct ct_json *j, const struct ct_leaks *l, const struct ct_growth_shape *s) {
    uint64_t ns = 0;
    const int known = ct_growth_kind_is_leak(s->kind) && ct_leaks_full_in(l, s, &ns);
    ct_json_number_or_null(j, "full_in_ns", known, ns);
}

static void add_untracked(struct ct_json *j, const struct ct_leaks *l) {
    const struct ct_untracked_growth *g = &l->untracked;
    struct ct_measured measured = {.count = 0};
    if (!ct_json_open_or_null(j, "untracked", g->known, '{'))
        return;
    const int is_leak = ct_growth_kind_is_leak(g->shape.kind);
    ct_json_text(j, "whose", g->is_own ? "process" : "process-or-others");
    ct_json_number(j, "bytes", g->bytes);
    ct_json_number(j, "read_t_ns", g->read_ns);
    add_shape(j, &g->shape);
    add_full(j, l, &g->shape);
    for (unsigned i = 0; i < CT_MEASURED_PARTS; i++) {
        measured.bytes[i] = g->measured[i];
        measured.known[i] = is_leak && g->measured_known;
    }
    ct_untracked_add_costs(j, &measured);
    ct_json_close(j, '}');
}

static void add_site(struct ct_view *v, struct ct_json *j, const struct ct_leaks *l,
                     const struct ct_leak *k) {
    const struct ct_site_group *g = group_of(l, k);
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "kind", ct_holding_kind_name(g->kind));
    ct_json_text(j, "site", g->label);
    ct_json_number(j, "bytes", g->bytes);
    ct_json_number(j, "count", g->count);
    add_shape(j, &k->shape);
    ct_json_text(j, "past", k->past == CT_LEAK_PAST_COARSE ? "coarse" : "exact");
    add_full(j, l, &k->shape);
    ct_json_number(j, "taken_count", g->growth.taken_count);
    ct_json_number(j, "taken_bytes", g->growth.taken_bytes);
    ct_json_number(j, "never_freed_count", k->never_freed_count);
    ct_json_number(j, "never_freed_bytes", k->never_freed_bytes);
    ct_json_number_or_null(j, "oldest_t_ns", g->growth.oldest_ns != 0, g->growth.oldest_ns);
    ct_json_number_or_null(j, "median_t_ns", k->median_ns != 0, k->median_ns);
    ct_json_number_or_null(j, "lifetime_ns", k->shape.lifetime_ns != 0, k->shape.lifetime_ns);
    ct_json_number(j, "stacks", g->stacks);
    ct_call_sites_json_stack(j, v->sites, "stack", g->stack);
    ct_json_close(j, '}');
}

static void add_sites(struct ct_view *v, struct ct_json *j, const char *key,
                      const struct ct_leaks *l, const struct ct_leak *list, size_t count) {
    ct_json_open(j, key, '[');
    for (size_t i = 0; i < count && (!v->options->top || i < v->options->top); i++)
        add_site(v, j, l, &list[i]);
    ct_json_close(j, ']');
}

static void add_pool(struct ct_json *j, const struct ct_leaks *l) {
    const struct ct_leaks_pool *p = &l->pool;
    if (!ct_json_open_or_null(j, "fragmentation", p->is_fragmenting, '{'))
        return;
    add_shape(j, &p->shape);
    add_full(j, l, &p->shape);
    ct_json_number(j, "reserved_bytes", p->reserved);
    ct_json_number(j, "filled_bytes", p->filled);
    ct_json_number(j, "most_filled_before_bytes", p->most_before);
    ct_json_number(j, "most_filled_since_bytes", p->most_since);
    ct_json_close(j, '}');
}

static void add_device(struct ct_view *v, struct ct_json *j, int device, const struct ct_leaks *l) {
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    ct_json_number(j, "bytes", l->live_bytes);
    ct_json_text(j, "rows", l->rows == CT_ROWS_BY_BLOCK ? "blocks" : "segments");
    ct_json_number(j, "from_t_ns", l->from_ns);
    ct_json_number(j, "to_t_ns", l->to_ns);
    ct_json_bool(j, "start_up_known", l->is_start_up_known);
    ct_json_number_or_null(j, "exact_from_t_ns", l->exact_from_ns != 0, l->exact_from_ns);
    ct_json_bool(j, "too_short", ct_leaks_is_too_short(l));
    ct_json_number(j, "shortest_ns", l->shortest_ns);
    ct_json_number_or_null(j, "free_bytes", l->free_known, l->free_bytes);
    ct_json_number(j, "idle_bytes", l->idle_bytes);
    ct_json_number_or_null(j, "full_in_ns", l->full_known, l->full_in_ns);
    add_sites(v, j, "growing", l, l->growing, l->growing_count);
    add_sites(v, j, "filled", l, l->filled, l->filled_count);
    ct_json_number(j, "untold", l->untold_count);
    ct_json_number(j, "untold_bytes", l->untold_bytes);
    add_pool(j, l);
    add_untracked(j, l);
    ct_json_close(j, '}');
}

// ---- the view -----------------------------------------------------------------------------------

// Unless another one is asked for: the OOM of device memory that was not recovered, else the end.
static struct ct_moment find_moment(const struct ct_view *v, const struct ct_scan *s) {
    const struct ct_oom_event *o = ct_scan_find_crossing(s);
    const int ends = o && !o->recovered && ct_incidents_is_device_memory(o);
    return ct_view_scan_find_moment(v, s, ends ? CT_MOMENT_OOM : CT_MOMENT_END);
}

struct ct_leaks_shown {
    const struct ct_view *view;
    const struct ct_scan *scan;
    struct ct_moment moment;
    struct ct_leaks_finder *finder[CT_DEVICES]; // NULL: of this device nothing is shown
    struct ct_leaks of[CT_DEVICES];
};

struct ct_leaks_shown *ct_leaks_shown_join_first(struct ct_listeners *to, const struct ct_view *v,
                                                 const struct ct_scan *s) {
    struct ct_leaks_shown *l = ct_heap_alloc_zeroed(1, sizeof *l);
    struct ct_leaks_request request = {.moment = &l->moment,
                                       .from_ns = v->from_ns,
                                       .rows = v->options->segments ? CT_ROWS_BY_SEGMENT
                                                                    : CT_ROWS_BY_BLOCK,
                                       .phases = v->phases};
    l->view = v;
    l->scan = s;
    l->moment = find_moment(v, s);
    for (int d = 0; d < CT_DEVICES; d++) {
        request.device = d;
        if (s->device[d].seen && s->device[d].peak_known)
            l->finder[d] = ct_leaks_join_first(to, &l->of[d], v->trace, &request);
    }
    return l;
}

void ct_leaks_shown_join_second(struct ct_listeners *to, struct ct_leaks_shown *l) {
    for (int d = 0; d < CT_DEVICES; d++)
        if (l->finder[d])
            ct_leaks_join_second(to, l->finder[d], l->view->sites);
}

void ct_leaks_shown_finish(struct ct_leaks_shown *l) {
    for (int d = 0; d < CT_DEVICES; d++)
        if (l->finder[d])
            ct_leaks_finish(l->finder[d]);
}

static void print_json(const struct ct_leaks_shown *l, struct ct_view *v) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, l->scan);
    ct_document_add_moment(j, v->trace, &l->moment);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (l->finder[d])
            add_device(v, j, d, &l->of[d]);
    ct_json_close(j, ']');
    ct_document_end(j);
}

static void print_text(const struct ct_leaks_shown *l, struct ct_view *v) {
    int any = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!l->finder[d])
            continue;
        print_device(v, d, &l->of[d], &l->moment, &l->scan->end);
        any = 1;
    }
    if (any)
        ct_trace_state_print_line(v, l->scan);
    else
        ct_trace_state_print_unallocated(v, l->scan->lost);
}

void ct_leaks_shown_print(const struct ct_leaks_shown *l, struct ct_view *v) {
    if (v->options->json)
        print_json(l, v);
    else
        print_text(l, v);
}

void ct_leaks_shown_free(struct ct_leaks_shown *l) {
    for (int d = 0; d < CT_DEVICES; d++)
        ct_leaks_free(&l->of[d]);
    free(l);
}

int ct_view_leaks(struct ct_view *v) {
    struct ct_pass first, second;
    struct ct_scan s;
    const struct ct_scan_request request = ct_view_scan_request(v);
    ct_view_scan_run(v, &s, &request, NULL);
    ct_replay_release(&s.end);
    ct_pass_init(&first, NULL);
    struct ct_leaks_shown *l = ct_leaks_shown_join_first(&first.listeners, v, &s);
    ct_pass_run(&first, v->trace);
    ct_pass_free(&first);
    ct_pass_init(&second, NULL);
    ct_leaks_shown_join_second(&second.listeners, l);
    ct_pass_run(&second, v->trace);
    ct_pass_free(&second);
    ct_leaks_shown_finish(l);
    ct_leaks_shown_print(l, v);
    ct_leaks_shown_free(l);
    ct_scan_free(&s);
    return CT_EXIT_OK;
}
