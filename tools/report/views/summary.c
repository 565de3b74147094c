// SPDX-License-Identifier: Apache-2.0
// summary: the verdict first, then what it rests on, in at most 24 lines.
#include <inttypes.h>

#include "base/utf8.h"
#include "analyze/coarse_history.h"
#include "analyze/live_at.h"
#include "replay/torch_settings.h"
#include "views/pool_common.h"

struct summary {
    struct ct_view *v;
    struct ct_scan scan;
    const struct ct_refusal *crossing; // or NULL
    int device;                        // that the text is about; -1 = none was seen
    struct ct_capacity capacity;       // of that device
    struct ct_live_totals moment;           // at the crossing, or at the peak
};

// ---- text ------------------------------------------------------------------------------------------

static void put_api(struct summary *s, uint32_t api) {
    char text[100];
    ct_label_api(s->v, api, text, sizeof text);
    fputs(text, s->v->out);
}

static void put_budget_verdict(struct summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_refusal *c = s->crossing;
    fprintf(v->out, "%s%s would have crossed %s at %s: ", v->term->red,
            ct_label_device(c->device).text, ct_label_size(v, v->options->capacity).text,
            ct_label_time(v, c->t_ns).text);
    if (c->op == CT_OP_MEMORY_SAMPLE) {
        fprintf(v->out, "a reading showed more than that in use%s\n", v->term->reset);
        return;
    }
    fprintf(v->out, "%s to ", c->bytes_known ? ct_label_size(v, c->bytes).text : "memory");
    put_api(s, c->api);
    fprintf(v->out, " was the first too much%s\n", v->term->reset);
}

static void put_refusal_verdict(struct summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_refusal *c = s->crossing;
    const struct ct_oom_reason w = ct_oom_reason_find(c, 0);
    if (c->op == CT_OP_BLOCK_OOM) {
        fprintf(v->out, "%sPyTorch refused %s on %s", v->term->red,
                c->bytes_known ? ct_label_size(v, c->bytes).text : "memory",
                ct_label_device(c->device).text);
    } else if (w.why == CT_OOM_REASON_HOST_MEMORY || w.why == CT_OOM_REASON_ADDRESS_SPACE) {
        fprintf(v->out, "%s%s%s refused to ", v->term->red,
                c->bytes_known ? ct_label_size(v, c->bytes).text : "",
                w.why == CT_OOM_REASON_HOST_MEMORY ? " of host memory was" : " of address space was");
        put_api(s, c->api);
    } else {
        fprintf(v->out, "%s%s refused %s to ", v->term->red, ct_label_device(c->device).text,
                c->bytes_known ? ct_label_size(v, c->bytes).text : "memory");
        put_api(s, c->api);
    }
    fprintf(v->out, " at %s", ct_label_time(v, c->t_ns).text);
    if (w.why == CT_OOM_REASON_NOT_ENOUGH_FREE || w.why == CT_OOM_REASON_ENOUGH_FREE)
        fprintf(v->out, ": %s of %s was free", ct_label_size(v, w.free).text,
                s->capacity.bytes ? ct_label_size(v, s->capacity.bytes).text : "-");
    if (c->recovered)
        fprintf(v->out, "; a retry succeeded %s later",
                ct_human_duration(c->recovered_t_ns - c->t_ns).text);
    fprintf(v->out, "%s\n", v->term->reset);
}

static void put_quiet_verdict(struct summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_device_scan *d = s->device >= 0 ? &s->scan.device[s->device] : NULL;
    fputs(v->term->bold, v->out);
    if (!d || !d->peak_known) {
        fputs("No GPU memory was allocated, and none was refused", v->out);
    } else {
        if (v->options->capacity)
            fprintf(v->out, "Nothing crossed %s. ", ct_label_size(v, v->options->capacity).text);
        else
            fputs("No allocation was refused. ", v->out);
        fprintf(v->out, "%s: %s", ct_label_device(s->device).text, ct_label_size(v, d->peak_bytes).text);
        if (s->capacity.bytes)
            fprintf(v->out, " of %s (%s)", ct_label_size(v, s->capacity.bytes).text,
                    ct_human_percent(d->peak_bytes, s->capacity.bytes).text);
        fprintf(v->out, " allocated at the peak, at %s", ct_label_time(v, d->peak_t_ns).text);
    }
    fprintf(v->out, "%s\n", v->term->reset);
}

static void put_asker(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_refusal *c = s->crossing;
    const struct ct_defined_thread *thread = &n->threads[c->thread];
    const struct ct_human_text wall = ct_label_wall_clock(v, c->t_ns);
    fprintf(v->out, "  event      %" PRIu64, c->event);
    if (c->thread)
        fprintf(v->out, ", thread %" PRIu64, thread->tid);
    if (thread->name) {
        fputs(" ", v->out);
        ct_utf8_print_sanitized(v->out, n->strings[thread->name].at, n->strings[thread->name].length);
    }
    fprintf(v->out, "%s%s\n", *wall.text ? ", " : "", wall.text);
    fputs("  asked by   ", v->out);
    if (c->stack)
        ct_print_callers(v, c->stack, 3, 13);
    else
        fputs("- (no stack was recorded)", v->out);
    putc('\n', v->out);
}

// Memory that others hold, or that lies idle in pools, if it would have been enough.
static void put_elsewhere(struct summary *s, const struct ct_oom_reason *w) {
    struct ct_view *v = s->v;
    uint64_t idle = 0;
    if (w->why != CT_OOM_REASON_NOT_ENOUGH_FREE)
        return;
    const uint64_t missing = w->rounded - w->free;
    for (size_t i = 0; i < s->moment.pool_count; i++)
        if (s->moment.pools[i].reserved > s->moment.pools[i].handed_out)
            idle += s->moment.pools[i].reserved - s->moment.pools[i].handed_out;
    if (s->moment.split.split_known && s->moment.split.others >= missing)
        fprintf(v->out, "; other processes hold %s", ct_label_size(v, s->moment.split.others).text);
    if (idle >= missing)
        fprintf(v->out, "; pools hold %s that was not handed out", ct_label_size(v, idle).text);
}

static void put_need(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_refusal *c = s->crossing;
    const int budget = v->options->capacity != 0;
    const struct ct_oom_reason w = ct_oom_reason_find(c, budget);
    if (w.rounded_known && w.rounded != c->bytes)
        fprintf(v->out, "  needed     %s, as a multiple of %s (inferred)\n",
                ct_label_size(v, w.rounded).text, w.step == 512 ? "512 bytes" : "2 MiB");
    fputs("  why        ", v->out);
    ct_print_oom_reason(v, c, &w);
    put_elsewhere(s, &w);
    putc('\n', v->out);
    size_t recovered = 0;
    for (size_t i = 0; i < s->scan.refusal_count; i++)
        recovered += (size_t)s->scan.refusals[i].recovered;
    if (s->scan.refusal_count > 1 && !budget)
        fprintf(v->out, "  refusals   %zu in all, %zu followed by a successful retry\n",
                s->scan.refusal_count, recovered);
}

static void put_share(struct summary *s, const char *name, uint64_t bytes, const char *note) {
    struct ct_view *v = s->v;
    const uint64_t whole = v->options->capacity ? v->options->capacity : s->capacity.bytes;
    fprintf(v->out, "  %-10s %12s %8s%s%s\n", name, ct_label_size(v, bytes).text,
            ct_human_percent(bytes, whole).text, *note ? "  " : "", note);
}

static void put_capacity(struct summary *s, const char *when) {
    struct ct_view *v = s->v;
    const struct ct_capacity *c = &s->capacity;
    const struct ct_string *name = ct_capacity_device_name(v->trace, s->device);
    fprintf(v->out, "%s%s", v->term->bold, ct_label_device(s->device).text);
    if (name->length) {
        fputs(" (", v->out);
        ct_utf8_print_sanitized(v->out, name->at, name->length < 60 ? name->length : 60);
        fputs(")", v->out);
    }
    fprintf(v->out, " %s%s: ", when, v->term->reset);
    if (!c->bytes) {
        fputs("capacity -\n", v->out);
        return;
    }
    if (v->options->capacity)
        fprintf(v->out, "%s asked about; has ", ct_label_size(v, v->options->capacity).text);
    fprintf(v->out, "%s by %s", ct_label_size(v, c->bytes).text, c->binds);
    if (c->disagree) {
        fputs("; others say:", v->out);
        if (c->total && c->total != c->bytes)
            fprintf(v->out, " cuDeviceTotalMem %s", ct_label_size(v, c->total).text);
        if (c->meminfo && c->meminfo != c->bytes)
            fprintf(v->out, " cuMemGetInfo %s", ct_label_size(v, c->meminfo).text);
        if (c->nvml && c->nvml != c->bytes)
            fprintf(v->out, " NVML %s", ct_label_size(v, c->nvml).text);
    }
    putc('\n', v->out);
}

// What of the untracked memory was seen to go, of this device: " (measured: ...)", or nothing.
static void measured(const struct ct_view *v, const struct ct_device_usage *d, char *out,
                     size_t size) {
    const struct {
        const char *what;
        uint64_t bytes;
    } costs[] = {{"contexts", d->context_known ? d->context_bytes : 0},
                 {"modules", d->module_known ? d->module_bytes : 0},
                 {"limits", d->limit_known ? d->limit_bytes : 0}};
    size_t at = 0;
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        if (costs[i].bytes && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s %s",
                                   at ? ", " : " (measured: ", costs[i].what,
                                   ct_label_size(v, costs[i].bytes).text);
    if (at && at < size)
        (void)snprintf(out + at, size - at, ")");
}

static void put_split(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_breakdown *m = &s->moment.split;
    const struct ct_device_usage *d = &s->scan.end.readings.device[s->device];
    char note[200];
    (void)snprintf(note, sizeof note, "this process's allocations");
    if (m->managed)
        (void)snprintf(note, sizeof note,
                       "this process's allocations (without %s of managed memory, which migrates)",
                       ct_label_size(v, m->managed).text);
    put_share(s, "tracked", m->tracked, note);
    if (!m->used_known) {
        fputs("  free       - (no reading of the device's memory)\n", v->out);
        return;
    }
    size_t at = (size_t)snprintf(note, sizeof note,
                                 m->split_known ? "this process: contexts, modules, rounding"
                                                : "contexts, modules, rounding, other processes");
    measured(v, d, note + at, sizeof note - at);
    put_share(s, "untracked", m->split_known ? m->untracked : m->unexplained, note);
    if (m->split_known)
        put_share(s, "others", m->others, "other processes and the driver, by NVML");
    put_share(s, "free", m->free,
              m->moved_on ? "inferred: the last reading and what was tracked since" : "");
}

static void put_live(struct summary *s, const char *when, unsigned rows) {
    struct ct_view *v = s->v;
    struct ct_site_groups groups;
    fprintf(v->out, "%slive %s%s: %s in %s allocation%s\n", v->term->bold, when, v->term->reset,
            ct_label_size(v, s->moment.bytes).text, ct_human_count(s->moment.count).text,
            ct_human_plural(s->moment.count));
    if (!s->moment.count)
        return;
    ct_site_groups_refine(v->sites, s->moment.holdings, s->moment.holding_count);
    ct_site_groups_build(&groups, v->sites, s->moment.holdings, s->moment.holding_count);
    ct_print_site_groups(v, &groups, s->moment.bytes, rows);
    ct_site_groups_free(&groups);
}

static void put_others(struct summary *s) {
    struct ct_view *v = s->v;
    const char *separator = "other devices: ";
    for (int d = 0, shown = 0; d < CT_DEVICES && shown < 4; d++) {
        if (d == s->device || !s->scan.device[d].seen)
            continue;
        fprintf(v->out, "%s%s peak %s", separator, ct_label_device(d).text,
                ct_label_size(v, s->scan.device[d].peak_bytes).text);
        separator = "; ";
        shown++;
    }
    if (*separator == ';')
        putc('\n', v->out);
}

static void put_next(struct summary *s) {
    struct ct_view *v = s->v;
    const char *command = "top";
    if (!s->scan.events)
        command = ct_trace_is_intact(v->trace) ? "info" : "check";
    else if (s->crossing && !v->options->capacity)
        command = ct_oom_reason_find(s->crossing, 0).why == CT_OOM_REASON_ENOUGH_FREE ? "frag" : "oom";
    fprintf(v->out, "%snext: cutrace-report %s ", v->term->dim, command);
    ct_utf8_print_sanitized(v->out, v->trace->source.name, strlen(v->trace->source.name));
    if (!s->scan.events) {
        fprintf(v->out, "%s\n", v->term->reset);
        return;
    }
    fprintf(v->out, " (also: %stimeline, %sdump)%s\n", strcmp(command, "top") == 0 ? "" : "top, ",
            strcmp(command, "frag") == 0 ? "" : "frag, ", v->term->reset);
}

// What was overwritten held more, or saw refusals: events tell of neither.
static void put_past(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_coarse_summary past = ct_coarse_history_summarize(v->trace, s->device);
    const struct ct_device_scan *d = &s->scan.device[s->device];
    uint64_t refused = 0;
    for (size_t i = 0; i < s->scan.refusal_count; i++)
        refused += s->scan.refusals[i].device == s->device;
    const int higher = past.known && past.peak_bytes > d->peak_bytes;
    if (higher)
        fprintf(v->out, "overwritten: %s allocated on %s at about %s (coarse)",
                ct_label_size(v, past.peak_bytes).text, ct_label_device(s->device).text,
                ct_label_time(v, past.peak_ns + past.peak_width_ns / 2).text);
    if (past.refused > refused)
        fprintf(v->out, "%s%" PRIu64 " refusal%s",
                higher ? ", " : "overwritten: ", past.refused - refused,
                ct_human_plural(past.refused - refused));
    if (higher || past.refused > refused)
        putc('\n', v->out);
}

// PyTorch's pool at the moment that the text is about.
static const struct ct_torch_pool_totals *pool_of(const struct summary *s) {
    return s->crossing ? &s->crossing->pool : &s->scan.device[s->device].pool_at_peak;
}

// So many that all of the text has at most 24 lines.
static unsigned rows(const struct summary *s) {
    const struct ct_trace *t = s->v->trace;
    const unsigned asked = s->v->options->top,
                   estimate = ct_definitions_info(&t->definitions, "option.SAMPLE") ||
                              ct_definitions_info(&t->definitions, "option.MIN_SIZE");
    const unsigned most =
        5 - estimate - (unsigned)ct_coarse_history_exists(t) -
        ct_pool_text_summary_lines(s->v, pool_of(s), &s->scan.growths.device[s->device]);
    return asked && asked < most ? asked : most;
}

static void put_text(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_device_scan *d = s->device >= 0 ? &s->scan.device[s->device] : NULL;
    if (s->crossing && v->options->capacity)
        put_budget_verdict(s);
    else if (s->crossing)
        put_refusal_verdict(s);
    else
        put_quiet_verdict(s);
    if (s->crossing) {
        put_asker(s);
        put_need(s);
    }
    if (d) {
        const char *when = s->crossing ? "at that moment" : "at the peak";
        put_capacity(s, when);
        put_split(s);
        ct_pool_text_print_summary(v, pool_of(s), &s->scan.growths.device[s->device]);
        put_live(s, when, rows(s));
        if (s->crossing && d->peak_known)
            fprintf(v->out, "peak: %s allocated on %s at %s\n", ct_label_size(v, d->peak_bytes).text,
                    ct_label_device(s->device).text, ct_label_time(v, d->peak_t_ns).text);
        put_past(s);
        put_others(s);
    }
    ct_trace_state_print_line(v, &s->scan);
    put_next(s);
}

// ---- JSON ------------------------------------------------------------------------------------------

static void json_pool(struct ct_json *j, struct summary *s, int d) {
    static const struct ct_torch_pool_totals none;
    const int bound = ct_torch_settings_limit_reuse(s->v->trace);
    const int here = s->crossing && s->crossing->device == d;
    ct_json_open(j, "pool", '{');
    ct_pool_json_add_pool(j, "crossing", here ? &s->crossing->pool : &none, bound);
    ct_pool_json_add_pool(j, "peak", &s->scan.device[d].pool_at_peak, bound);
    ct_pool_json_add_pool(j, "end", &s->scan.device[d].pool_at_end, bound);
    ct_json_close(j, '}');
    ct_pool_json_add_retries(j, s->v, &s->scan.growths.device[d], s->scan.device[d].pool_at_end.known);
    ct_pool_json_add_curve(j, &s->scan.curve, d, bound);
}

static void json_device(struct ct_json *j, struct summary *s, int d) {
    const struct ct_capacity c = ct_capacity_find(s->v->trace, &s->scan.end, d);
    const struct ct_device_scan *scan = &s->scan.device[d];
    const struct ct_device_usage *now = &s->scan.end.readings.device[d];
    const struct ct_live_device *live = &s->scan.end.live.device[d];
    const struct ct_breakdown split = ct_replay_split(&s->scan.end, d);
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", d);
    ct_document_add_capacity(j, &c);
    ct_json_number(j, "live_bytes", live->live_bytes);
    ct_json_number(j, "live_allocations", live->live_allocations);
    ct_json_number(j, "managed_bytes", live->managed_bytes);
    ct_json_number(j, "pooled_bytes", live->pooled_bytes);
    ct_json_number(j, "pool_bytes", live->pool_bytes);
    ct_json_number_or_null(j, "peak_bytes", scan->peak_known, scan->peak_bytes);
    ct_json_number_or_null(j, "peak_t_ns", scan->peak_known, scan->peak_t_ns);
    const struct ct_coarse_summary past = ct_coarse_history_summarize(s->v->trace, d);
    ct_json_number_or_null(j, "history_peak_bytes", past.known, past.peak_bytes);
    ct_json_number_or_null(j, "history_peak_t_ns", past.known, past.peak_ns);
    ct_json_number_or_null(j, "history_refusals", past.known, past.refused);
    ct_json_number_or_null(j, "used_peak_bytes", scan->used_peak_known, scan->used_peak);
    ct_json_number_or_null(j, "free_bytes_min", now->free_known, now->free_min);
    ct_json_number_or_null(j, "context_bytes", now->context_known, now->context_bytes);
    ct_json_number_or_null(j, "module_bytes", now->module_known, now->module_bytes);
    ct_json_number_or_null(j, "limit_bytes", now->limit_known, now->limit_bytes);
    ct_document_add_memory(j, "memory", &split);
    json_pool(j, s, d);
    ct_json_close(j, '}');
}

static void json_holdings(struct ct_json *j, struct summary *s, const char *key, int there) {
    char label[400];
    ct_json_open(j, key, '[');
    for (size_t i = 0; there && i < s->moment.holding_count; i++) {
        const struct ct_holding *h = &s->moment.holdings[i];
        if (s->v->options->top && i >= s->v->options->top)
            break;
        ct_call_sites_label(s->v->sites, h->stack, label, sizeof label);
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "bytes", h->bytes);
        ct_json_number(j, "count", h->count);
        ct_json_text(j, "site", label);
        ct_call_sites_json_stack(j, s->v->sites, "stack", h->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void put_json(struct summary *s) {
    struct ct_json json = {.out = s->v->out}, *j = &json;
    const int budget = s->v->options->capacity != 0;
    ct_document_begin(j, s->v);
    ct_document_add_trace(j, s->v, &s->scan);
    ct_json_number_or_null(j, "budget_bytes", budget, s->v->options->capacity);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->scan.device[d].seen)
            json_device(j, s, d);
    ct_json_close(j, ']');
    ct_json_number(j, "host_bytes", s->scan.end.live.host_bytes);
    ct_json_open(j, "ooms", '[');
    for (size_t i = 0; i < s->scan.refusal_count; i++)
        ct_document_add_oom(j, s->v, NULL, &s->scan.refusals[i], 0);
    ct_json_close(j, ']');
    if (s->crossing)
        ct_document_add_oom(j, s->v, "crossing", s->crossing, budget);
    else
        ct_json_null(j, "crossing");
    json_holdings(j, s, "live_at_crossing", s->crossing != NULL);
    json_holdings(j, s, "live_at_peak", s->crossing == NULL);
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

static void take_moment(struct summary *s) {
    const struct ct_device_scan *d = &s->scan.device[s->device];
    if (!s->crossing)
        (void)ct_peak_totals_get(&d->marks, CT_TOTALS_AT_PEAK, d->peak_event, &s->moment);
    // The crossing is the last refusal unless a later retry of that one succeeded, or there is a budget.
    else if (!ct_peak_totals_get(&d->marks, CT_TOTALS_AT_OOM, s->crossing->event, &s->moment))
        ct_live_at_event(&s->moment, s->v->trace, s->crossing->event, 1, s->device, s->capacity.bytes);
}

int ct_view_summary(struct ct_view *v) {
    struct summary s = {.v = v};
    const struct ct_scan_request request = ct_view_scan_request_pools(v);
    ct_view_scan_run(v, &s.scan, &request);
    ct_replay_release(&s.scan.end); // another replay follows
    s.crossing = ct_scan_find_crossing(&s.scan);
    s.device = s.crossing ? s.crossing->device : ct_view_scan_main_device(v, &s.scan);
    if (s.device >= 0) {
        s.capacity = ct_capacity_find(v->trace, &s.scan.end, s.device);
        take_moment(&s);
    }
    if (s.crossing)
        s.moment.split = s.crossing->split; // it knows the reading that came with the refusal
    if (v->options->json)
        put_json(&s);
    else
        put_text(&s);
    ct_live_at_free(&s.moment);
    ct_scan_free(&s.scan);
    return CT_EXIT_OK;
}
