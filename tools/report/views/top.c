// SPDX-License-Identifier: Apache-2.0
// top: call sites by the memory that they hold at the peak and at the end, and by the total that
// they allocated.
#include <inttypes.h>

#include "analyze/site_totals.h"
#include "views/document.h"
#include "views/print.h"
#include "views/table.h"
#include "views/trace_state.h"

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
        fprintf(v->out, "%s%s of %s frames of these stacks are hidden (--noise, --all-frames)%s\n",
                v->terminal->dim, ct_human_count(hidden).text, ct_human_count(frames).text,
                v->terminal->reset);
}

static const struct ct_table_column columns[] = {
    {.head = "at peak"},
    {.head = "count", .rank = 2},
    {.head = "at end", .rank = 1},
    {.head = "count", .rank = 3},
    {.head = "total", .rank = 4},
    {.head = "count", .rank = 5},
    {.head = "call site", .kind = CT_TABLE_LABEL},
};

static void add_row(struct ct_view *v, struct ct_table *t, const struct ct_site_group *r) {
    const int idle = r->kind == CT_HOLDING_IDLE; // nobody allocates that
    ct_table_begin_row(t);
    ct_table_add_cell(t, ct_label_size(v, r->bytes).text);
    ct_table_add_cell(t, ct_human_count(r->count).text);
    ct_table_add_cell(t, ct_label_size(v, r->more[CT_SITE_END_BYTES]).text);
    ct_table_add_cell(t, ct_human_count(r->more[CT_SITE_END_COUNT]).text);
    ct_table_add_cell(t, idle ? "-" : ct_label_size(v, r->more[CT_SITE_TOTAL_BYTES]).text);
    ct_table_add_cell(t, idle ? "-" : ct_human_count(r->more[CT_SITE_TOTAL_COUNT]).text);
    ct_table_add_cell(t, r->label);
}

static void print_sites(struct ct_view *v, const struct ct_site_totals *t, int device,
                        const struct ct_scan *s) {
    const unsigned rows = v->options->top ? v->options->top : 20;
    const struct ct_device_scan *d = &s->device[device];
    const struct ct_site_groups *g = &t->groups;
    struct ct_table table;
    fprintf(v->out, "%s: %s at the peak, at %s\n", ct_label_device(device).text,
            ct_label_size(v, d->peak_bytes).text, ct_label_time(v, d->peak_t_ns).text);
    ct_table_init(&table, columns, sizeof columns / sizeof *columns, 2);
    for (size_t i = 0; i < g->count && i < rows; i++)
        add_row(v, &table, &g->list[i]);
    ct_table_print(v, &table);
    ct_table_free(&table);
    if (g->count > rows)
        fprintf(v->out, "%zu more call sites; --top %zu shows all\n", g->count - rows, g->count);
    print_hidden(v, t);
}

static void add_sites(struct ct_view *v, struct ct_json *j, const struct ct_site_groups *g) {
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < g->count && (!v->options->top || i < v->options->top); i++) {
        const struct ct_site_group *r = &g->list[i];
        const int known = r->kind != CT_HOLDING_IDLE;
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "kind", ct_holding_kind_name(r->kind));
        ct_json_text(j, "site", r->label);
        ct_json_number(j, "peak_bytes", r->bytes);
        ct_json_number(j, "peak_count", r->count);
        ct_json_number(j, "live_bytes", r->more[CT_SITE_END_BYTES]);
        ct_json_number(j, "live_count", r->more[CT_SITE_END_COUNT]);
        ct_json_number_or_null(j, "total_allocated_bytes", known, r->more[CT_SITE_TOTAL_BYTES]);
        ct_json_number_or_null(j, "total_allocated_count", known, r->more[CT_SITE_TOTAL_COUNT]);
        ct_json_number(j, "stacks", r->stacks);
        ct_call_sites_json_stack(j, v->sites, "stack", r->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

// Shows one device, with a scan of its own so that the totals of each stack are the device's. `j`:
// NULL for text.
static void show_device(struct ct_view *v, int device, struct ct_json *j) {
    struct ct_scan s;
    struct ct_site_totals totals;
    struct ct_scan_request request = ct_view_scan_request(v);
    request.device = device;
    request.blocks = 1;
    ct_scan_run(&s, v->trace, &request);
    ct_site_totals_build(&totals, v->sites, &s, device,
                         v->options->segments ? CT_ROWS_BY_SEGMENT : CT_ROWS_BY_BLOCK);
    ct_replay_release(&s.end);
    if (j) {
        ct_json_open(j, NULL, '{');
        ct_document_add_device(j, "ordinal", device);
        ct_json_number_or_null(j, "peak_bytes", s.device[device].peak_known,
                               s.device[device].peak_bytes);
        ct_json_number_or_null(j, "peak_t_ns", s.device[device].peak_known,
                               s.device[device].peak_t_ns);
        ct_json_text(j, "rows", totals.rows == CT_ROWS_BY_BLOCK ? "blocks" : "segments");
        add_sites(v, j, &totals.groups);
        ct_json_close(j, '}');
    } else {
        print_sites(v, &totals, device, &s);
    }
    ct_site_totals_free(&totals);
    ct_scan_free(&s);
}

int ct_view_top(struct ct_view *v) {
    struct ct_json json = {.out = v->out}, *j = v->options->json ? &json : NULL;
    struct ct_scan s;
    const struct ct_scan_request request = ct_view_scan_request(v);
    int seen[CT_DEVICES], any = 0;
    ct_view_scan_run(v, &s, &request);
    for (int d = 0; d < CT_DEVICES; d++)
        any |= seen[d] = s.device[d].seen && s.device[d].peak_known;
    if (j) {
        ct_document_begin(j, v);
        ct_document_add_trace(j, v, &s);
        ct_json_open(j, "devices", '[');
    }
    ct_scan_free(&s);
    for (int d = 0; d < CT_DEVICES; d++)
        if (seen[d])
            show_device(v, d, j);
    if (j) {
        ct_json_close(j, ']');
        ct_document_end(j);
    } else if (!any) {
        fprintf(v->out, "No GPU memory was allocated%s\n", ct_trace_state_until(v).text);
    }
    return CT_EXIT_OK;
}
