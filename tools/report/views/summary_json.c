// SPDX-License-Identifier: Apache-2.0
#include "views/steps.h"

#include "analyze/coarse_history.h"
#include "print/companions_print.h"
#include "print/document.h"
#include "print/pool_print.h"
#include "print/print.h"
#include "print/recorder_line.h"
#include "print/untracked.h"
#include "print/verdict.h"
#include "replay/torch_segments.h"
#include "views/neighbours.h"

static void add_pool(struct ct_json *j, struct ct_summary *s, int d) {
    static const struct ct_torch_pool_totals none;
    const int bound = ct_torch_settings_limit_reuse(s->v->trace);
    const int here = s->crossing && s->crossing->device == d;
    ct_json_open(j, "pool", '{');
    ct_pool_json_add_pool(j, "crossing", here ? &s->crossing->pool : &none, bound);
    ct_pool_json_add_pool(j, "peak", &s->scan.device[d].pool_at_peak, bound);
    ct_pool_json_add_pool(j, "end", &s->scan.device[d].pool_at_end, bound);
    ct_json_close(j, '}');
    ct_pool_json_add_growths(j, s->v, &s->scan.growths.device[d],
                             s->scan.device[d].pool_at_end.known);
    ct_pool_json_add_curve(j, &s->scan.curve, d, bound);
}

// Makes the account of a device at its peak. Returns 0 if it has none.
static int make_peak(const struct ct_summary *s, int d, const struct ct_device_memory *memory,
                     struct ct_account *peak) {
    const struct ct_device_scan *scan = &s->scan.device[d];
    struct ct_live_totals live;
    if (!scan->peak_known || !ct_peak_totals_get(&scan->totals, CT_TOTALS_AT_PEAK, scan->peak_event,
                                                 CT_ROWS_BY_BLOCK, &live))
        return 0;
    live.split = memory->peak;
    ct_account_make(peak, s->v->phases, &live);
    ct_summary_set_siblings(s->v, peak, d, scan->peak_t_ns, NULL);
    ct_live_at_free(&live);
    return 1;
}

static void add_neighbours(struct ct_json *j, const struct ct_summary *s, int d) {
    const struct ct_device_scan *scan = &s->scan.device[d];
    const uint64_t last = s->v->trace->t_last_ns;
    const struct ct_neighbour_moments at = {
        .crossing_ns = s->crossing && s->crossing->device == d ? s->crossing->t_ns : UINT64_MAX,
        .peak_ns = scan->peak_known ? scan->peak_t_ns : UINT64_MAX,
        .end_ns = s->scan.request.to_ns < last ? s->scan.request.to_ns : last};
    ct_neighbours_add_json(j, s->v, &s->notes.neighbours, d, &at);
}

static void add_device(struct ct_json *j, struct ct_summary *s, int d) {
    const struct ct_capacity c = ct_capacity_find(s->v->trace, &s->scan.end, d);
    const struct ct_device_scan *scan = &s->scan.device[d];
    const struct ct_device_usage *now = &s->scan.end.readings.device[d];
    const struct ct_live_device *live = &s->scan.end.live.device[d];
    const struct ct_device_memory memory = ct_scan_memory(&s->scan, d);
    const struct ct_device_kind kind = ct_device_kind_read(&s->v->trace->definitions, d);
    struct ct_account peak;
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", d);
    ct_document_add_string(j, "name", ct_capacity_device_name(s->v->trace, d));
    ct_document_add_capacity(j, &c);
    ct_document_add_kind(j, &kind);
    ct_json_number(j, "live_bytes", live->live_bytes);
    ct_json_number(j, "live_allocations", live->live_allocations);
    ct_json_number(j, "managed_bytes", live->managed_bytes);
    ct_json_number(j, "pooled_bytes", live->pooled_bytes);
    ct_json_number(j, "pool_bytes", live->pool_bytes);
    ct_json_number_or_null(j, "peak_bytes", scan->peak_known, scan->peak_bytes);
    ct_json_number_or_null(j, "peak_t_ns", scan->peak_known, scan->peak_t_ns);
    ct_json_bool(j, "peak_known",
                 scan->peak_known && ct_trace_is_known_at(s->v->trace, scan->peak_t_ns));
    const struct ct_coarse_summary past = ct_coarse_history_summarize(s->v->trace, d);
    ct_json_number_or_null(j, "history_peak_bytes", past.known, past.peak_bytes);
    ct_json_number_or_null(j, "history_peak_t_ns", past.known, past.peak_ns);
    ct_json_number_or_null(j, "history_peak_width_ns", past.known, past.peak_width_ns);
    ct_json_number_or_null(j, "history_oom_count", past.known, past.ooms);
    ct_json_number_or_null(j, "used_peak_bytes", scan->used_peak_known, scan->used_peak);
    ct_json_number_or_null(j, "free_bytes_min", now->free_known, now->free_min);
    ct_untracked_add_costs(j, &now->measured);
    ct_document_add_memory_of_device(j, &memory);
    ct_account_json_add_moments(j, memory.crossing_known ? &s->account : NULL,
                                make_peak(s, d, &memory, &peak) ? &peak : NULL, &s->at_end[d]);
    add_pool(j, s, d);
    add_neighbours(j, s, d);
    ct_json_close(j, '}');
}

static void add_holdings(struct ct_json *j, struct ct_summary *s, const char *key, int known,
                         const struct ct_live_totals *live) {
    char label[400];
    if (!ct_json_open_or_null(j, key, known, '['))
        return;
    for (size_t i = 0; live && i < live->holding_count; i++) {
        const struct ct_holding *h = &live->holdings[i];
        if (s->v->options->top && i >= s->v->options->top)
            break;
        ct_site_groups_label(s->v->sites, h->kind, h->stack, label, sizeof label);
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "kind", ct_holding_kind_name(h->kind));
        ct_json_number(j, "bytes", h->bytes);
        ct_json_number(j, "count", h->count);
        ct_json_text(j, "site", label);
        ct_call_sites_json_stack(j, s->v->sites, "stack", h->stack);
        ct_resumed_add_json(j, s->v, h->resumed_bytes, h->resumed_by);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

// A failure that only --capacity makes had no line.
static void add_recorder_line(struct ct_json *j, const struct ct_summary *s) {
    char line[2048];
    const int has_line =
        s->crossing && !s->v->options->capacity &&
        ct_recorder_line_format(s->v, s->crossing,
                                ct_incidents_is_retried(&s->scan.incidents, s->crossing), line,
                                sizeof line);
    ct_json_text_or_null(j, "recorder_line", has_line ? line : NULL);
}

void ct_summary_print_json(struct ct_summary *s) {
    struct ct_json json = {.out = s->v->out}, *j = &json;
    const struct ct_shared shared = ct_summary_sum_shared(s);
    const int budget = s->v->options->capacity != 0;
    ct_document_begin(j, s->v);
    ct_document_add_trace(j, s->v, &s->scan);
    ct_json_number_or_null(j, "budget_bytes", budget, s->v->options->capacity);
    ct_document_add_driver(j, s->v);
    ct_pool_json_add_without_blocks(j, s->v->trace);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->scan.device[d].seen)
            add_device(j, s, d);
    ct_json_close(j, ']');
    ct_json_number(j, "host_bytes", s->scan.end.live.host_bytes);
    ct_json_number(j, "host_bytes_at_moment", ct_summary_live(s)->host_bytes);
    ct_json_number(j, "host_registered_bytes_at_moment", s->host_registered);
    ct_document_add_shared(j, "shared_at_moment", &shared);
    ct_document_add_incidents(j, s->v, &s->scan, s->crossing);
    add_holdings(j, s, "live_at_crossing", 1, s->crossing ? &s->live : NULL);
    add_holdings(j, s, "live_at_peak", 1, s->crossing ? NULL : &s->live);
    ct_document_add_moment_or_null(j, s->v->trace, s->has_moment ? &s->moment : NULL);
    add_holdings(j, s, "live_at_moment", s->has_moment, &s->live_then);
    ct_verdicts_add_json(j, &s->verdicts, s->v->sites);
    add_recorder_line(j, s);
    ct_companions_add_json(j, s->v, &s->scan.incidents);
    ct_document_end(j);
}
