// SPDX-License-Identifier: Apache-2.0
// top: call sites by the memory that they hold at a moment, with how they came to that; or as a
// tree of callers.
#include <inttypes.h>

#include "print/document.h"
#include "print/label.h"
#include "print/print.h"
#include "print/table.h"
#include "print/trace_state.h"
#include "question/question.h"
#include "sites/site_growth.h"
#include "sites/site_totals.h"
#include "views/top_tree.h"
#include "views/views.h"

enum { HELD, COUNT, END, TAKEN, GIVEN_BACK, SINCE, GROWTH, ROSE, COLUMNS };

#define SECOND UINT64_C(1000000000)

// Call sites with what each holds at a moment and how it came to that. On a terminal the least
// important columns are left out until a call site has room.
struct site_table {
    const struct ct_site_groups *groups; // sorted, with growth
    const struct ct_growth_stretch *stretch;
    const char *held; // heading of what is held: "at peak"
    uint64_t whole;   // bytes that are held
    int at_end;       // a column of what is held at the end (site_totals.h), too
    unsigned rows;
};

struct row {
    struct ct_human_text cell[COLUMNS];
};

struct table {
    const struct site_table *of;
    struct row *rows;
    size_t shown, n; // call sites that are shown; rows, with that of the rest
};

static void print_hidden(struct ct_view *v, const struct ct_site_totals *t) {
    uint64_t hidden = 0, frames = 0;
    for (size_t i = 0; i < t->stack_count; i++) {
        const uint32_t stack = t->stacks[i].stack;
        if (!stack)
            continue;
        const struct ct_shown_frames a = ct_call_sites_shown_frames(v->sites, stack);
        hidden += ct_call_sites_count_hidden(&a);
        frames += ct_definitions_stack_node(v->sites->definitions, stack)->depth;
    }
    if (hidden)
        fprintf(v->out,
                "%s%s of %s frames of these stacks are hidden (help noise, --all-frames)%s\n",
                v->terminal->dim, ct_human_count(hidden).text, ct_human_count(frames).text,
                v->terminal->reset);
}

// ---- one device ---------------------------------------------------------------------------------

struct device_view {
    int device;
    struct ct_scan *scan; // of this device alone
    struct ct_moment moment;
    struct ct_site_totals totals;
    struct ct_growth_stretch stretch;
};

static struct ct_scan_request make_request(const struct ct_view *v) {
    struct ct_scan_request request = ct_view_scan_request(v);
    request.blocks = 1;
    return request;
}

static void analyze_device(struct ct_view *v, struct device_view *d,
                           const struct ct_moment *moment) {
    struct ct_replay replay = {0};
    d->moment = *moment;
    if (moment->kind == CT_MOMENT_PEAK)
        d->moment = ct_moment_find(d->scan, v->trace, CT_MOMENT_PEAK, d->device, NULL);
    ct_site_totals_build(&d->totals, v->sites, d->scan,
                         ct_question_state(&d->moment, d->scan, v->trace, &replay), d->device,
                         v->options->segments ? CT_ROWS_BY_SEGMENT : CT_ROWS_BY_BLOCK);
    ct_replay_free(&replay);
    ct_replay_release(&d->scan->end); // another replay follows
    if (v->options->tree)
        return;
    const struct ct_site_growth_request growth = {
        .moment = &d->moment, .from_ns = v->from_ns, .device = d->device, .rows = d->totals.rows};
    d->stretch = ct_site_growth_measure(&d->totals.groups, v->sites, v->trace, &growth);
}

// ---- growth -------------------------------------------------------------------------------------

// Growth is shown in a time that is not much longer than the stretch it was measured in.
static uint64_t find_unit(const struct ct_growth_stretch *s) {
    const uint64_t length = s->to_ns - s->from_ns;
    if (length < 120 * SECOND)
        return SECOND;
    return length < 7200 * SECOND ? 60 * SECOND : 3600 * SECOND;
}

static const char *name_unit(uint64_t unit) {
    if (unit == SECOND)
        return "growth/s";
    return unit == 60 * SECOND ? "growth/min" : "growth/h";
}

static struct ct_human_text format_growth(const struct ct_view *v,
                                          const struct ct_growth_stretch *s, int64_t bytes) {
    if (!bytes)
        return ct_human_format("0");
    const int64_t growth = ct_site_growth_in(s, bytes, find_unit(s));
    const uint64_t size = growth < 0 ? 0 - (uint64_t)growth : (uint64_t)growth;
    if (!size)
        return ct_human_format("%s", bytes < 0 ? "> -1 B" : "< 1 B");
    return ct_human_format("%c%.30s", growth < 0 ? '-' : '+', ct_label_size(v, size).text);
}

// ---- cells --------------------------------------------------------------------------------------

static void fill_growth(const struct ct_view *v, const struct table *t, struct row *r,
                        const struct ct_site_group *g) {
    const struct ct_site_growth *w = &g->growth;
    r->cell[TAKEN] = ct_label_size(v, w->taken_bytes);
    r->cell[GIVEN_BACK] = ct_label_size(v, w->given_back_bytes);
    if (w->oldest_ns)
        r->cell[SINCE] = ct_label_time(v, w->oldest_ns);
    if (!t->of->stretch->known)
        return;
    // What was allocated once has no rate: a KV cache does not grow by gigabytes a second.
    r->cell[GROWTH] = w->rises == 1 && w->bytes_of_growth > 0
                          ? ct_human_format("once")
                          : format_growth(v, t->of->stretch, w->bytes_of_growth);
    r->cell[ROSE] = ct_human_format("%u/%d", w->rises, CT_SITE_GROWTH_PARTS - 1);
}

static void fill_row(const struct ct_view *v, const struct table *t, struct row *r,
                     const struct ct_site_group *g) {
    for (unsigned c = 0; c < COLUMNS; c++)
        r->cell[c] = ct_human_format("-");
    r->cell[COUNT] = ct_human_count(g->count);
    r->cell[END] = ct_label_size(v, g->more[CT_SITE_END_BYTES]);
    if (g->kind != CT_HOLDING_IDLE) // nobody allocates that
        fill_growth(v, t, r, g);
}

// The row of what is not shown.
static void fill_rest(const struct ct_view *v, const struct table *t, struct row *r) {
    uint64_t count = 0, end = 0, taken = 0, given_back = 0;
    for (size_t i = t->shown; i < t->of->groups->count; i++) {
        const struct ct_site_group *g = &t->of->groups->list[i];
        count += g->count;
        end += g->more[CT_SITE_END_BYTES];
        taken += g->growth.taken_bytes;
        given_back += g->growth.given_back_bytes;
    }
    for (unsigned c = 0; c < COLUMNS; c++)
        r->cell[c] = (struct ct_human_text){""};
    r->cell[COUNT] = ct_human_count(count);
    r->cell[END] = ct_label_size(v, end);
    r->cell[TAKEN] = ct_label_size(v, taken);
    r->cell[GIVEN_BACK] = ct_label_size(v, given_back);
}

// What is held adds up to the whole, as it is shown.
static void fill_held(const struct ct_view *v, const struct table *t) {
    const size_t n = t->n;
    uint64_t *bytes = ct_heap_alloc_zeroed(n, sizeof *bytes);
    struct ct_human_text *sizes = ct_heap_resize(NULL, n, sizeof *sizes);
    for (size_t i = 0; i < t->of->groups->count; i++)
        bytes[i < t->shown ? i : t->shown] += t->of->groups->list[i].bytes;
    ct_human_bytes_of_parts(sizes, bytes, n, t->of->whole, v->options->units, t->shown);
    for (size_t i = 0; i < n; i++)
        t->rows[i].cell[HELD] = sizes[i];
    free(bytes);
    free(sizes);
}

static void fill(const struct ct_view *v, struct table *t) {
    const struct ct_site_groups *g = t->of->groups;
    t->shown = g->count <= t->of->rows ? g->count : t->of->rows;
    t->n = t->shown + (g->count > t->shown);
    t->rows = ct_heap_resize(NULL, t->n, sizeof *t->rows);
    for (size_t i = 0; i < t->shown; i++)
        fill_row(v, t, &t->rows[i], &g->list[i]);
    if (g->count > t->shown)
        fill_rest(v, t, &t->rows[t->n - 1]);
    fill_held(v, t);
}

// ---- the table ----------------------------------------------------------------------------------

// Says what the columns of growth mean, or why they are empty.
static void print_stretch(struct ct_view *v, const struct ct_growth_stretch *s) {
    fputs(v->terminal->dim, v->out);
    if (!s->known)
        fputs("growth: not known, the time up to there is shorter than 0.2 s", v->out);
    else
        fprintf(v->out,
                "growth: how the minimum of each 1/%d of %s to %s rose; rose: in how many of %d",
                CT_SITE_GROWTH_PARTS, ct_label_time(v, s->from_ns).text,
                ct_label_time(v, s->to_ns).text, CT_SITE_GROWTH_PARTS - 1);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void add_row(struct ct_table *shown, const struct row *r, int at_end, const char *site) {
    ct_table_begin_row(shown);
    for (unsigned c = 0; c < COLUMNS; c++)
        if (c != END || at_end)
            ct_table_add_cell(shown, r->cell[c].text);
    ct_table_add_cell(shown, site);
}

static void print_rows(struct ct_view *v, const struct table *t, struct ct_table *shown) {
    const struct ct_site_groups *g = t->of->groups;
    char rest[100], label[1600];
    for (size_t i = 0; i < t->shown; i++) {
        ct_resumed_label(v, &g->list[i], label, sizeof label);
        add_row(shown, &t->rows[i], t->of->at_end, label);
    }
    if (t->n > t->shown) {
        (void)snprintf(rest, sizeof rest, "%zu more; --top %zu shows all", g->count - t->shown,
                       g->count);
        add_row(shown, &t->rows[t->shown], t->of->at_end, rest);
    }
    ct_table_print(v, shown);
}

// Prints the table, and a line that says what its growth means.
static void print_table(struct ct_view *v, const struct site_table *of) {
    const struct ct_growth_stretch *s = of->stretch;
    // The first to be left out has the highest rank.
    const struct ct_table_column all[] = {
        {.head = of->held},
        {.head = "count", .rank = 5},
        {.head = "at end", .rank = 7},
        {.head = "taken", .rank = 3},
        {.head = "given back", .rank = 4},
        {.head = "since", .rank = 2},
        {.head = s->known ? name_unit(find_unit(s)) : "growth", .rank = 1},
        {.head = "rose", .rank = 6},
        {.head = "call site", .kind = CT_TABLE_LABEL},
    };
    struct ct_table_column columns[COLUMNS + 1];
    struct table t = {.of = of};
    struct ct_table shown;
    size_t n = 0;
    for (unsigned c = 0; c <= COLUMNS; c++)
        if (c != END || of->at_end)
            columns[n++] = all[c];
    fill(v, &t);
    ct_table_init(&shown, columns, n, 0);
    print_rows(v, &t, &shown);
    print_stretch(v, s);
    free(t.rows);
}

// ---- text ---------------------------------------------------------------------------------------

static void print_title(struct ct_view *v, const struct device_view *d) {
    fprintf(v->out, "%s: %s ", ct_label_device_in_full(v, d->device, &d->scan->end).text,
            ct_label_size(v, d->totals.now.bytes).text);
    ct_print_moment(v, &d->moment);
    if (d->totals.now.asleep_bytes)
        fprintf(v->out, "; %s of PyTorch's blocks sleep (unmapped) beside it",
                ct_label_size(v, d->totals.now.asleep_bytes).text);
    putc('\n', v->out);
}

static void print_sites(struct ct_view *v, const struct device_view *d) {
    static const char *const words[] = {"at OOM", "at peak", "at end", "then"};
    const struct site_table table = {.groups = &d->totals.groups,
                                     .stretch = &d->stretch,
                                     .held = words[d->moment.kind],
                                     .whole = d->totals.now.bytes,
                                     .at_end = d->moment.kind != CT_MOMENT_END,
                                     .rows = v->options->top ? v->options->top : 20};
    print_title(v, d);
    print_table(v, &table);
    print_hidden(v, &d->totals);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_growth(struct ct_json *j, const struct ct_site_group *r,
                       const struct ct_growth_stretch *s) {
    const struct ct_site_growth *g = &r->growth;
    const int known = r->kind != CT_HOLDING_IDLE; // nobody allocates that
    ct_json_number_or_null(j, "taken_bytes", known, g->taken_bytes);
    ct_json_number_or_null(j, "taken_count", known, g->taken_count);
    ct_json_number_or_null(j, "given_back_bytes", known, g->given_back_bytes);
    ct_json_number_or_null(j, "given_back_count", known, g->given_back_count);
    ct_json_number_or_null(j, "oldest_t_ns", g->oldest_ns != 0, g->oldest_ns);
    ct_json_signed_or_null(j, "growth_bytes", known && s->known, g->bytes_of_growth);
    ct_json_number_or_null(j, "rises", known && s->known, g->rises);
}

static void add_site(struct ct_view *v, struct ct_json *j, const struct ct_site_group *r,
                     const struct ct_growth_stretch *s) {
    const int known = r->kind != CT_HOLDING_IDLE;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "kind", ct_holding_kind_name(r->kind));
    ct_json_text(j, "site", r->label);
    ct_json_number(j, "bytes", r->bytes);
    ct_json_number(j, "count", r->count);
    add_growth(j, r, s);
    ct_json_number(j, "peak_bytes", r->more[CT_SITE_PEAK_BYTES]);
    ct_json_number(j, "peak_count", r->more[CT_SITE_PEAK_COUNT]);
    ct_json_number(j, "live_bytes", r->more[CT_SITE_END_BYTES]);
    ct_json_number(j, "live_count", r->more[CT_SITE_END_COUNT]);
    ct_json_number_or_null(j, "total_allocated_bytes", known, r->more[CT_SITE_TOTAL_BYTES]);
    ct_json_number_or_null(j, "total_allocated_count", known, r->more[CT_SITE_TOTAL_COUNT]);
    ct_json_number(j, "stacks", r->stacks);
    ct_call_sites_json_stack(j, v->sites, "stack", r->stack);
    ct_resumed_add_json(j, v, r->resumed_bytes, r->resumed_by);
    ct_json_close(j, '}');
}

static void add_sites(struct ct_view *v, struct ct_json *j, const struct device_view *d) {
    const struct ct_site_groups *g = &d->totals.groups;
    ct_json_number_or_null(j, "growth_from_t_ns", d->stretch.known, d->stretch.from_ns);
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < g->count && (!v->options->top || i < v->options->top); i++)
        add_site(v, j, &g->list[i], &d->stretch);
    ct_json_close(j, ']');
}

static void add_device(struct ct_view *v, struct ct_json *j, struct device_view *d) {
    const struct ct_device_scan *s = &d->scan->device[d->device];
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", d->device);
    ct_json_number_or_null(j, "peak_bytes", s->peak_known, s->peak_bytes);
    ct_json_number_or_null(j, "peak_t_ns", s->peak_known, s->peak_t_ns);
    ct_json_bool(j, "peak_known", s->peak_known && ct_trace_is_known_at(v->trace, s->peak_t_ns));
    ct_document_add_moment(j, v->trace, &d->moment);
    ct_json_number(j, "bytes", d->totals.now.bytes);
    ct_json_number(j, "asleep_bytes", d->totals.now.asleep_bytes);
    ct_json_text(j, "rows", d->totals.rows == CT_ROWS_BY_BLOCK ? "blocks" : "segments");
    if (v->options->tree) {
        ct_json_null(j, "growth_from_t_ns");
        ct_json_null(j, "sites");
        ct_top_tree_add(v, j, &d->totals.now);
    } else {
        add_sites(v, j, d);
        ct_json_null(j, "tree");
    }
    ct_json_close(j, '}');
}

// `j`: NULL for text.
static void show_device(struct ct_view *v, struct ct_scan *scan, int device,
                        const struct ct_moment *moment, struct ct_json *j) {
    struct device_view d = {.device = device, .scan = scan};
    analyze_device(v, &d, moment);
    if (j) {
        add_device(v, j, &d);
    } else if (v->options->tree) {
        print_title(v, &d);
        ct_top_tree_print(v, &d.totals.now);
        print_hidden(v, &d.totals);
    } else {
        print_sites(v, &d);
    }
    ct_site_totals_free(&d.totals);
}

// The totals of each stack must be the device's: where the trace has several devices, each has a
// scan of its own.
static void show_devices(struct ct_view *v, struct ct_scan *all, const struct ct_moment *moment,
                         struct ct_json *j) {
    struct ct_scan_request request = make_request(v);
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_scan own;
        request.device = d;
        if (!all->device[d].seen || !all->device[d].peak_known)
            continue;
        if (ct_scan_is_of_one_device(all, d)) {
            show_device(v, all, d, moment, j);
            continue;
        }
        ct_question_scan(&own, v->trace, &request, NULL);
        show_device(v, &own, d, moment, j);
        ct_scan_free(&own);
    }
}

static int any_peak(const struct ct_scan *s) {
    int any = 0;
    for (int d = 0; d < CT_DEVICES; d++)
        any |= s->device[d].seen && s->device[d].peak_known;
    return any;
}

int ct_view_top(struct ct_view *v) {
    struct ct_json json = {.out = v->out}, *j = v->options->json ? &json : NULL;
    struct ct_scan s;
    const struct ct_scan_request request = make_request(v);
    ct_view_scan_run(v, &s, &request, NULL);
    const struct ct_moment moment = ct_view_scan_find_moment(v, &s, CT_MOMENT_OOM);
    if (j) {
        ct_document_begin(j, v);
        ct_document_add_trace(j, v, &s);
        ct_json_open(j, "devices", '[');
    }
    show_devices(v, &s, &moment, j);
    if (j) {
        ct_json_close(j, ']');
        ct_document_end(j);
    } else if (!any_peak(&s)) {
        ct_trace_state_print_unallocated(v, s.lost);
    }
    ct_scan_free(&s);
    return CT_EXIT_OK;
}
