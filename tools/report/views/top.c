// SPDX-License-Identifier: Apache-2.0
// top: call sites by the memory that they hold at the peak and at the end, and by the total that
// they allocated.
#include <inttypes.h>

#include "analyze/live_at.h"
#include "views/document.h"
#include "views/print.h"
#include "views/trace_state.h"

// In `more` of struct ct_site_group.
enum { END_BYTES, END_COUNT, TOTAL_BYTES, TOTAL_COUNT };

static void print_hidden(struct ct_view *v, const struct ct_scan *s) {
    uint64_t hidden = 0, frames = 0;
    for (size_t i = 1; i < s->stack_count; i++) {
        if (!s->stacks[i].total_count && !s->stacks[i].live_count)
            continue;
        const struct ct_shown_frames a = ct_call_sites_shown_frames(v->sites, (uint32_t)i);
        hidden += ct_call_sites_count_hidden(&a);
        frames += ct_definitions_stack_node(v->sites->definitions, (uint32_t)i)->depth;
    }
    if (hidden)
        fprintf(v->out, "%s%s of %s frames of these stacks are hidden (--noise, --all-frames)%s\n",
                v->terminal->dim, ct_human_count(hidden).text, ct_human_count(frames).text,
                v->terminal->reset);
}

static void print_sites(struct ct_view *v, struct ct_site_groups *g, int device,
                        const struct ct_scan *s) {
    const unsigned rows = v->options->top ? v->options->top : 20;
    const struct ct_device_scan *d = &s->device[device];
    fprintf(v->out, "%s: %s at the peak, at %s\n", ct_label_device(device).text,
            ct_label_size(v, d->peak_bytes).text, ct_label_time(v, d->peak_t_ns).text);
    fprintf(v->out, "%s%12s %9s %12s %9s %12s %9s  call site%s\n", v->terminal->dim, "at peak",
            "count", "at end", "count", "total", "count", v->terminal->reset);
    for (size_t i = 0; i < g->count && i < rows; i++) {
        const struct ct_site_group *r = &g->list[i];
        fprintf(v->out, "%12s %9s %12s %9s %12s %9s  ", ct_label_size(v, r->bytes).text,
                ct_human_count(r->count).text, ct_label_size(v, r->more[END_BYTES]).text,
                ct_human_count(r->more[END_COUNT]).text,
                ct_label_size(v, r->more[TOTAL_BYTES]).text,
                ct_human_count(r->more[TOTAL_COUNT]).text);
        ct_print_label(v, r->label, 70);
        putc('\n', v->out);
    }
    if (g->count > rows)
        fprintf(v->out, "%zu more call sites; --top %zu shows all\n", g->count - rows, g->count);
    print_hidden(v, s);
}

static void add_sites(struct ct_view *v, struct ct_json *j, const struct ct_site_groups *g) {
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < g->count && (!v->options->top || i < v->options->top); i++) {
        const struct ct_site_group *r = &g->list[i];
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "site", r->label);
        ct_json_number(j, "peak_bytes", r->bytes);
        ct_json_number(j, "peak_count", r->count);
        ct_json_number(j, "live_bytes", r->more[END_BYTES]);
        ct_json_number(j, "live_count", r->more[END_COUNT]);
        ct_json_number(j, "total_allocated_bytes", r->more[TOTAL_BYTES]);
        ct_json_number(j, "total_allocated_count", r->more[TOTAL_COUNT]);
        ct_json_number(j, "stacks", r->stacks);
        ct_call_sites_json_stack(j, v->sites, "stack", r->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

// Refines the labels by the total that was allocated, so that they suit every column.
static void refine_labels(struct ct_view *v, const struct ct_scan *s) {
    struct ct_holding *all = ct_heap_resize(NULL, s->stack_count, sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < s->stack_count; i++)
        if (s->stacks[i].total_count || s->stacks[i].live_count)
            all[n++] = (struct ct_holding){(uint32_t)i, s->stacks[i].total_bytes, 1};
    ct_site_groups_refine(v->sites, all, n);
    free(all);
}

// Adds up what call sites hold at the peak and at the end, and what they allocated in total.
static void sum_groups(struct ct_view *v, struct ct_site_groups *groups, const struct ct_scan *s,
                       const struct ct_live_totals *peak) {
    for (size_t i = 0; i < peak->holding_count; i++) {
        struct ct_site_group *g = ct_site_groups_get(groups, v->sites, peak->holdings[i].stack);
        g->bytes += peak->holdings[i].bytes;
        g->count += peak->holdings[i].count;
    }
    for (size_t i = 0; i < s->stack_count; i++) {
        const struct ct_stack_total *t = &s->stacks[i];
        if (!t->total_count && !t->live_count)
            continue;
        struct ct_site_group *g = ct_site_groups_get(groups, v->sites, (uint32_t)i);
        g->stacks++;
        g->more[END_BYTES] += t->live_bytes;
        g->more[END_COUNT] += t->live_count;
        g->more[TOTAL_BYTES] += t->total_bytes;
        g->more[TOTAL_COUNT] += t->total_count;
    }
    ct_site_groups_sort(groups);
}

// Shows one device, with a scan of its own so that the totals of each stack are the device's. `j`:
// NULL for text.
static void show_device(struct ct_view *v, int device, struct ct_json *j) {
    struct ct_scan s;
    struct ct_live_totals peak = {0};
    struct ct_site_groups groups = {0};
    struct ct_scan_request request = ct_view_scan_request(v);
    request.device = device;
    ct_scan_run(&s, v->trace, &request);
    ct_replay_release(&s.end);
    (void)ct_peak_totals_get(&s.device[device].totals, CT_TOTALS_AT_PEAK,
                             s.device[device].peak_event, &peak);
    refine_labels(v, &s);
    sum_groups(v, &groups, &s, &peak);
    if (j) {
        ct_json_open(j, NULL, '{');
        ct_document_add_device(j, "ordinal", device);
        ct_json_number_or_null(j, "peak_bytes", s.device[device].peak_known,
                               s.device[device].peak_bytes);
        ct_json_number_or_null(j, "peak_t_ns", s.device[device].peak_known,
                               s.device[device].peak_t_ns);
        add_sites(v, j, &groups);
        ct_json_close(j, '}');
    } else {
        print_sites(v, &groups, device, &s);
    }
    ct_site_groups_free(&groups);
    ct_live_at_free(&peak);
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
