// SPDX-License-Identifier: Apache-2.0
// top: call sites by what they held at the peak, what they hold at the end, and how much went through them.
#include <inttypes.h>

#include "analyze/live_at.h"
#include "views/common.h"

enum { AT_END, END_COUNT, TAKEN, TAKEN_COUNT };

static void put_hidden(struct ct_view *v, const struct ct_scan *s) {
    uint64_t hidden = 0, frames = 0;
    for (size_t i = 1; i < s->stack_count; i++) {
        if (!s->stacks[i].taken_count && !s->stacks[i].live_count)
            continue;
        const struct ct_shown_frames a = ct_call_sites_shown_frames(v->sites, (uint32_t)i);
        hidden += ct_call_sites_count_hidden(&a);
        frames += ct_definitions_stack_node(v->sites->definitions, (uint32_t)i)->depth;
    }
    if (hidden)
        fprintf(v->out, "%s%s of %s frames of these stacks are hidden (--noise, --all-frames)%s\n",
                v->term->dim, ct_human_count(hidden).text, ct_human_count(frames).text, v->term->reset);
}

static void put_text(struct ct_view *v, struct ct_site_groups *g, int device, const struct ct_scan *s) {
    const unsigned rows = v->options->top ? v->options->top : 20;
    const struct ct_device_scan *d = &s->device[device];
    fprintf(v->out, "%s: %s at the peak, at %s\n", ct_label_device(device).text,
            ct_label_size(v, d->peak_bytes).text, ct_label_time(v, d->peak_t_ns).text);
    fprintf(v->out, "%s%12s %9s %12s %9s %12s %9s  call site%s\n", v->term->dim, "at peak", "count",
            "at end", "count", "taken", "count", v->term->reset);
    for (size_t i = 0; i < g->count && i < rows; i++) {
        const struct ct_site_group *r = &g->list[i];
        fprintf(v->out, "%12s %9s %12s %9s %12s %9s  ", ct_label_size(v, r->bytes).text,
                ct_human_count(r->count).text, ct_label_size(v, r->more[AT_END]).text,
                ct_human_count(r->more[END_COUNT]).text, ct_label_size(v, r->more[TAKEN]).text,
                ct_human_count(r->more[TAKEN_COUNT]).text);
        ct_print_label(v, r->label, 70);
        putc('\n', v->out);
    }
    if (g->count > rows)
        fprintf(v->out, "%zu more call sites; --top %zu shows all\n", g->count - rows, g->count);
    put_hidden(v, s);
}

static void json_groups(struct ct_view *v, struct ct_json *j, const struct ct_site_groups *g) {
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < g->count && (!v->options->top || i < v->options->top); i++) {
        const struct ct_site_group *r = &g->list[i];
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "site", r->label);
        ct_json_number(j, "peak_bytes", r->bytes);
        ct_json_number(j, "peak_count", r->count);
        ct_json_number(j, "live_bytes", r->more[AT_END]);
        ct_json_number(j, "live_count", r->more[END_COUNT]);
        ct_json_number(j, "taken_bytes", r->more[TAKEN]);
        ct_json_number(j, "taken_count", r->more[TAKEN_COUNT]);
        ct_json_number(j, "stacks", r->stacks);
        ct_call_sites_json_stack(j, v->sites, "stack", r->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

// By what was taken in all, so that the labels fit every column.
static void refine(struct ct_view *v, const struct ct_scan *s) {
    struct ct_holding *all = ct_heap_resize(NULL, s->stack_count, sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < s->stack_count; i++)
        if (s->stacks[i].taken_count || s->stacks[i].live_count)
            all[n++] = (struct ct_holding){(uint32_t)i, s->stacks[i].taken_bytes, 1};
    ct_site_groups_refine(v->sites, all, n);
    free(all);
}

// One device at a time: a scan of its own, so that each stack's totals are the device's.
static void top(struct ct_view *v, int device, struct ct_json *j) {
    struct ct_scan s;
    struct ct_live_totals peak = {0};
    struct ct_site_groups groups = {0};
    struct ct_scan_request request = ct_view_scan_request(v);
    request.device = device;
    ct_scan_run(&s, v->trace, &request);
    ct_replay_release(&s.end);
    (void)ct_peak_totals_get(&s.device[device].marks, CT_TOTALS_AT_PEAK, s.device[device].peak_event,
                          &peak);
    refine(v, &s);
    for (size_t i = 0; i < peak.holding_count; i++) {
        struct ct_site_group *g = ct_site_groups_get(&groups, v->sites, peak.holdings[i].stack);
        g->bytes += peak.holdings[i].bytes;
        g->count += peak.holdings[i].count;
    }
    for (size_t i = 0; i < s.stack_count; i++) {
        const struct ct_stack_total *t = &s.stacks[i];
        if (!t->taken_count && !t->live_count)
            continue;
        struct ct_site_group *g = ct_site_groups_get(&groups, v->sites, (uint32_t)i);
        g->stacks++;
        g->more[AT_END] += t->live_bytes;
        g->more[END_COUNT] += t->live_count;
        g->more[TAKEN] += t->taken_bytes;
        g->more[TAKEN_COUNT] += t->taken_count;
    }
    ct_site_groups_sort(&groups);
    if (j) {
        ct_json_open(j, NULL, '{');
        ct_document_add_device(j, "ordinal", device);
        ct_json_number_or_null(j, "peak_bytes", s.device[device].peak_known, s.device[device].peak_bytes);
        ct_json_number_or_null(j, "peak_t_ns", s.device[device].peak_known, s.device[device].peak_t_ns);
        json_groups(v, j, &groups);
        ct_json_close(j, '}');
    } else {
        put_text(v, &groups, device, &s);
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
            top(v, d, j);
    if (j) {
        ct_json_close(j, ']');
        ct_json_close(j, '}');
        ct_json_end_line(j);
    } else if (!any) {
        fputs("No GPU memory was allocated\n", v->out);
    }
    return CT_EXIT_OK;
}
