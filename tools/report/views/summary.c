// SPDX-License-Identifier: Apache-2.0
// summary: the verdict first, then the figures behind it, in at most 24 lines.
#include <inttypes.h>
#include <string.h>

#include "analyze/coarse_history.h"
#include "analyze/live_at.h"
#include "base/utf8.h"
#include "replay/torch_settings.h"
#include "views/document.h"
#include "views/pool_json.h"
#include "views/pool_text.h"
#include "views/print.h"
#include "views/trace_state.h"

struct summary {
    struct ct_view *v;
    struct ct_scan scan;
    const struct ct_oom_event *crossing; // or NULL
    int device;                          // of the text; -1 = none was seen
    struct ct_capacity capacity;         // of that device
    struct ct_live_totals live;          // at the crossing, or at the peak
};

// ---- text ---------------------------------------------------------------------------------------

// Prints "cuMemAlloc_v2 4.30 GiB".
static void print_request(const struct ct_view *v, const struct ct_oom_event *o) {
    char api[100] = "PyTorch";
    if (o->op != CT_OP_BLOCK_OOM)
        ct_label_api(v, o->api, api, sizeof api);
    fputs(api, v->out);
    if (o->bytes_known)
        fprintf(v->out, " %s", ct_label_size(v, o->bytes).text);
}

static void print_budget_verdict(struct summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    fprintf(v->out, "%s%s would have exceeded %s at %s", v->terminal->red,
            ct_label_device(c->device).text, ct_label_budget(v).text,
            ct_label_time(v, c->t_ns).text);
    if (c->op == CT_OP_MEMORY_SAMPLE) {
        fprintf(v->out, ": a reading showed %s in use", ct_label_size(v, c->split.used).text);
    } else {
        fputs(", first with ", v->out);
        print_request(v, c);
        fputs(c->result ? ", which failed" : "", v->out);
    }
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void print_oom_verdict(struct summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    const struct ct_oom_reason reason = ct_oom_reason_find(c, 0);
    fputs(v->terminal->red, v->out);
    if (reason.kind == CT_OOM_REASON_HOST_MEMORY)
        fputs("Out of host memory", v->out);
    else if (reason.kind == CT_OOM_REASON_ADDRESS_SPACE)
        fputs("Out of address space", v->out);
    else
        fprintf(v->out, "%s out of memory", ct_label_device(c->device).text);
    fprintf(v->out, " at %s: ", ct_label_time(v, c->t_ns).text);
    print_request(v, c);
    if (reason.kind == CT_OOM_REASON_NOT_ENOUGH_FREE || reason.kind == CT_OOM_REASON_ENOUGH_FREE)
        fprintf(v->out, ", free %s of %s", ct_label_size(v, reason.free).text,
                s->capacity.bytes ? ct_label_size(v, s->capacity.bytes).text : "-");
    if (c->recovered)
        fprintf(v->out, "; %s succeeded %s later",
                s->scan.incidents.list[c->incident].retried ? "PyTorch's retry"
                                                            : "a request of this size",
                ct_human_duration(c->recovered_t_ns - c->t_ns).text);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void print_not_exceeded(struct summary *s) {
    const struct ct_view *v = s->v;
    fprintf(v->out, "Nothing exceeded %s", ct_label_budget(v).text);
    if (s->capacity.bytes && s->capacity.bytes < v->options->capacity)
        fprintf(v->out, ", but %s has only %s", ct_label_device(s->device).text,
                ct_label_size(v, s->capacity.bytes).text);
    fputs(s->scan.incidents.oom_count ? ", and OOMs occurred. " : ". ", v->out);
}

// Returns what shares are shares of: the budget, or else the capacity; 0: unknown.
static uint64_t whole_of(const struct summary *s) {
    return s->v->options->capacity ? s->v->options->capacity : s->capacity.bytes;
}

static void print_quiet_verdict(struct summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_device_scan *d = s->device >= 0 ? &s->scan.device[s->device] : NULL;
    fputs(v->terminal->bold, v->out);
    if (!d || !d->peak_known) {
        fprintf(v->out, "No GPU memory was allocated, and no OOM occurred%s",
                ct_trace_state_until(v).text);
    } else {
        if (v->options->capacity)
            print_not_exceeded(s);
        else
            fprintf(v->out, "No OOM occurred%s. ", ct_trace_state_until(v).text);
        fprintf(v->out, "%s: %s", ct_label_device(s->device).text,
                ct_label_size(v, d->peak_bytes).text);
        if (whole_of(s))
            fprintf(v->out, " of %s (%s)", ct_label_size(v, whole_of(s)).text,
                    ct_human_percent(d->peak_bytes, whole_of(s)).text);
        fprintf(v->out, " allocated at the peak, at %s", ct_label_time(v, d->peak_t_ns).text);
    }
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void print_call(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_oom_event *c = s->crossing;
    const struct ct_string *name = &n->strings[n->threads[c->thread].name];
    const struct ct_human_text wall = ct_label_utc(v, c->t_ns, 0);
    if (c->flags & CT_FLAG_NVML) { // by the recorder, not by a call of the program
        fprintf(v->out, "  event      %" PRIu64 ", a reading by NVML%s%s\n", c->event,
                *wall.text ? ", " : "", wall.text);
        return;
    }
    fprintf(v->out, "  event      %" PRIu64, c->event);
    if (c->thread)
        fprintf(v->out, ", thread %" PRIu64, n->threads[c->thread].tid);
    if (n->threads[c->thread].name) {
        fputs(" ", v->out);
        ct_utf8_print_sanitized(v->out, name->at, name->length);
    }
    fprintf(v->out, "%s%s\n", *wall.text ? ", " : "", wall.text);
    fputs("  stack      ", v->out);
    if (c->stack)
        ct_print_callers(v, c->stack, 3, 13);
    else
        fputs("- (no stack was recorded)", v->out);
    putc('\n', v->out);
}

// Prints the memory that other processes hold or that is idle in pools, if it would have been
// enough.
static void print_memory_elsewhere(struct summary *s, const struct ct_oom_reason *w) {
    struct ct_view *v = s->v;
    uint64_t idle = 0;
    if (w->kind != CT_OOM_REASON_NOT_ENOUGH_FREE)
        return;
    const uint64_t missing = w->rounded - w->free;
    for (size_t i = 0; i < s->live.pool_count; i++)
        if (s->live.pools[i].reserved > s->live.pools[i].used)
            idle += s->live.pools[i].reserved - s->live.pools[i].used;
    if (s->live.split.split_known && s->live.split.others >= missing)
        fprintf(v->out, "; other processes hold %s", ct_label_size(v, s->live.split.others).text);
    if (idle >= missing)
        fprintf(v->out, "; %s of the pools is unused", ct_label_size(v, idle).text);
}

static void print_reason(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    const int budget = v->options->capacity != 0;
    const struct ct_oom_reason w = ct_oom_reason_find(c, budget);
    if (w.rounded_known && w.rounded != c->bytes)
        fprintf(v->out, "  needed     %s, rounded up to a multiple of %s (inferred)\n",
                ct_label_size(v, w.rounded).text, w.step == 512 ? "512 bytes" : "2 MiB");
    fputs("  reason     ", v->out);
    ct_print_oom_reason(v, c, &w);
    print_memory_elsewhere(s, &w);
    putc('\n', v->out);
    if (s->scan.incidents.count > 1 && !budget) {
        fputs("  OOMs       ", v->out);
        ct_print_incident_counts(v, &s->scan.incidents);
        putc('\n', v->out);
    }
}

// The rows that say how a device's memory is used.
struct shares {
    struct {
        const char *name;
        char note[200];
    } row[8];
    uint64_t bytes[8];
    size_t count, residual; // the row that takes the difference of rounding
    uint64_t pool_idle;     // part of the first row
};

static void add_share(struct shares *l, const char *name, uint64_t bytes, const char *note) {
    l->row[l->count].name = name;
    (void)snprintf(l->row[l->count].note, sizeof l->row->note, "%s", note);
    l->bytes[l->count++] = bytes;
}

static void print_shares(struct summary *s, const struct shares *l) {
    struct ct_view *v = s->v;
    struct ct_human_text size[8], share[8];
    ct_human_bytes_of_parts(size, l->bytes, l->count, whole_of(s), v->options->units, l->residual);
    ct_human_percent_of_parts(share, l->bytes, l->count, whole_of(s), l->residual);
    for (size_t i = 0; i < l->count; i++) {
        fprintf(v->out, "  %-10s %12s %8s%s%s\n", l->row[i].name, size[i].text, share[i].text,
                *l->row[i].note ? "  " : "", l->row[i].note);
        if (i == 0 && l->pool_idle)
            fprintf(v->out, "  %-10s %12s %8s  part of tracked: idle in CUDA's memory pools\n",
                    "pools idle", ct_label_size(v, l->pool_idle).text,
                    ct_human_percent(l->pool_idle, whole_of(s)).text);
    }
}

// "budget 24 GB = 22.35 GiB (did you mean 24GiB?); capacity ".
static void print_budget(struct summary *s) {
    const struct ct_arguments *o = s->v->options;
    fprintf(s->v->out, "budget %s", ct_label_budget(s->v).text);
    if (o->capacity_decimal) // (the text ends with "B")
        fprintf(s->v->out, " (did you mean %.*siB?)", (int)strlen(o->capacity_text) - 1,
                o->capacity_text);
    fputs("; capacity ", s->v->out);
}

static void print_capacity(struct summary *s, const char *when) {
    struct ct_view *v = s->v;
    const struct ct_capacity *c = &s->capacity;
    const struct ct_string *name = ct_capacity_device_name(v->trace, s->device);
    fprintf(v->out, "%s%s", v->terminal->bold, ct_label_device(s->device).text);
    if (name->length) {
        fputs(" (", v->out);
        ct_utf8_print_sanitized(v->out, name->at, name->length < 60 ? name->length : 60);
        fputs(")", v->out);
    }
    fprintf(v->out, " %s%s: ", when, v->terminal->reset);
    if (v->options->capacity)
        print_budget(s);
    else if (!c->bytes)
        fputs("capacity ", v->out);
    if (!c->bytes) {
        fputs("-\n", v->out);
        return;
    }
    fprintf(v->out, "%s by %s", ct_label_size(v, c->bytes).text, c->source);
    if (c->disagree) {
        fputs("; others report:", v->out);
        if (c->total && c->total != c->bytes)
            fprintf(v->out, " cuDeviceTotalMem %s", ct_label_size(v, c->total).text);
        if (c->meminfo && c->meminfo != c->bytes)
            fprintf(v->out, " cuMemGetInfo %s", ct_label_size(v, c->meminfo).text);
        if (c->nvml && c->nvml != c->bytes)
            fprintf(v->out, " NVML %s", ct_label_size(v, c->nvml).text);
    }
    putc('\n', v->out);
}

// Appends the measured parts of the untracked memory: " (measured: ...)", or nothing.
static void append_measured(const struct ct_view *v, const struct ct_device_usage *d, char *out,
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

static void print_memory(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_breakdown *m = &s->live.split;
    const struct ct_device_usage *d = &s->scan.end.readings.device[s->device];
    const char *what =
        m->pool_idle ? "this process's allocations and memory pools" : "this process's allocations";
    struct shares l = {.pool_idle = m->pool_idle};
    char note[200];
    (void)snprintf(note, sizeof note, "%s", what);
    if (m->managed)
        (void)snprintf(note, sizeof note, "%s (without %s of managed memory, which migrates)", what,
                       ct_label_size(v, m->managed).text);
    add_share(&l, "tracked", m->tracked, note);
    if (!m->used_known) {
        print_shares(s, &l);
        fputs("  free       - (no reading of the device's memory)\n", v->out);
        return;
    }
    if (m->in_flight)
        add_share(&l, "in flight", m->in_flight, "allocations or frees that had not returned yet");
    size_t at = (size_t)snprintf(note, sizeof note,
                                 m->split_known ? "this process: contexts, modules, rounding"
                                                : "contexts, modules, rounding, other processes");
    append_measured(v, d, note + at, sizeof note - at);
    l.residual = l.count;
    add_share(&l, "untracked", m->split_known ? m->untracked : m->unexplained, note);
    if (m->split_known)
        add_share(&l, "others", m->others, "other processes and the driver, by NVML");
    const char *of = v->options->capacity ? "of the budget" : "";
    const char *how = m->moved_on ? "inferred: the last reading and what was tracked since" : "";
    (void)snprintf(note, sizeof note, "%s%s%s", of, *of && *how ? "; " : "", how);
    add_share(&l, "free", m->free, note);
    print_shares(s, &l);
}

// Returns PyTorch's pool at the crossing, or at the peak.
static const struct ct_torch_pool_totals *pool_of(const struct summary *s) {
    return s->crossing ? &s->crossing->pool : &s->scan.device[s->device].pool_at_peak;
}

static void print_live(struct summary *s, const char *when, unsigned rows) {
    struct ct_view *v = s->v;
    struct ct_site_groups groups;
    const int has_blocks = pool_of(s)->known && s->live.rows == CT_ROWS_BY_BLOCK;
    fprintf(v->out, "%slive %s%s: %s in %s allocation%s%s\n", v->terminal->bold, when,
            v->terminal->reset, ct_label_size(v, s->live.bytes).text,
            ct_human_count(s->live.count).text, ct_human_plural(s->live.count),
            has_blocks ? ", PyTorch's by block" : "");
    if (!s->live.count)
        return;
    ct_site_groups_refine(v->sites, s->live.holdings, s->live.holding_count);
    ct_site_groups_build(&groups, v->sites, s->live.holdings, s->live.holding_count);
    ct_print_site_groups(v, &groups, s->live.bytes, rows);
    ct_site_groups_free(&groups);
}

static void print_other_devices(struct summary *s) {
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

static void print_next(struct summary *s) {
    struct ct_view *v = s->v;
    const char *command = "top";
    if (!s->scan.events)
        command = ct_trace_is_intact(v->trace) ? "info" : "check";
    else if (s->crossing && !v->options->capacity)
        command =
            ct_oom_reason_find(s->crossing, 0).kind == CT_OOM_REASON_ENOUGH_FREE ? "frag" : "oom";
    fprintf(v->out, "%snext: cutrace-report %s ", v->terminal->dim, command);
    ct_utf8_print_sanitized(v->out, v->trace->source.name, strlen(v->trace->source.name));
    if (!s->scan.events) {
        fprintf(v->out, "%s\n", v->terminal->reset);
        return;
    }
    fprintf(v->out, " (also: %stimeline, %sdump)%s\n", strcmp(command, "top") == 0 ? "" : "top, ",
            strcmp(command, "frag") == 0 ? "" : "frag, ", v->terminal->reset);
}

// Returns how many calls failed on a device, of those that the recorder counts in the coarse
// history. It does not know incidents.
static uint64_t count_failed_calls(const struct ct_incidents *n, int device) {
    uint64_t calls = 0;
    for (const struct ct_oom_event *o = n->ooms; o < n->ooms + n->oom_count; o++)
        calls += o->device == device &&
                 (o->op == CT_OP_ALLOC || o->op == CT_OP_CREATE || o->op == CT_OP_GRAPH_ALLOC);
    return calls;
}

// Prints a higher peak and more failed calls in the overwritten period, which the events do not
// show.
static void print_overwritten(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_coarse_summary past = ct_coarse_history_summarize(v->trace, s->device);
    const struct ct_device_scan *d = &s->scan.device[s->device];
    const uint64_t calls = count_failed_calls(&s->scan.incidents, s->device);
    const uint64_t more = past.ooms > calls ? past.ooms - calls : 0;
    const int higher = past.known && past.peak_bytes > d->peak_bytes;
    if (higher)
        fprintf(v->out, "overwritten: %s allocated on %s at about %s (coarse)",
                ct_label_size(v, past.peak_bytes).text, ct_label_device(s->device).text,
                ct_label_time(v, past.peak_ns + past.peak_width_ns / 2).text);
    if (more)
        fprintf(v->out, "%s%" PRIu64 " call%s out of memory", higher ? ", " : "overwritten: ", more,
                ct_human_plural(more));
    if (higher || more)
        putc('\n', v->out);
}

// Returns the rows of call sites that leave the text at most 24 lines.
static unsigned row_count(const struct summary *s) {
    const struct ct_trace *t = s->v->trace;
    const unsigned asked = s->v->options->top,
                   estimate = ct_definitions_info(&t->definitions, "option.SAMPLE") ||
                              ct_definitions_info(&t->definitions, "option.MIN_SIZE");
    const unsigned others =
        estimate + (unsigned)ct_coarse_history_exists(t) + (s->live.split.pool_idle != 0) +
        (s->live.split.in_flight != 0) +
        ct_pool_text_summary_lines(s->v, pool_of(s), &s->scan.growths.device[s->device]);
    const unsigned most = others < 5 ? 5 - others : 1;
    return asked && asked < most ? asked : most;
}

static void print_text(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_device_scan *d = s->device >= 0 ? &s->scan.device[s->device] : NULL;
    if (s->crossing && v->options->capacity)
        print_budget_verdict(s);
    else if (s->crossing)
        print_oom_verdict(s);
    else
        print_quiet_verdict(s);
    if (s->crossing) {
        print_call(s);
        print_reason(s);
    }
    if (d) {
        const char *when = s->crossing ? "at that moment" : "at the peak";
        print_capacity(s, when);
        print_memory(s);
        ct_pool_text_print_summary(v, pool_of(s), &s->scan.growths.device[s->device]);
        print_live(s, when, row_count(s));
        if (s->crossing && d->peak_known && !v->options->capacity)
            fprintf(v->out, "peak: %s allocated on %s at %s\n",
                    ct_label_size(v, d->peak_bytes).text, ct_label_device(s->device).text,
                    ct_label_time(v, d->peak_t_ns).text);
        if (!s->crossing || !v->options->capacity) // it is of the whole run
            print_overwritten(s);
        print_other_devices(s);
    }
    ct_trace_state_print_line(v, &s->scan);
    print_next(s);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_pool(struct ct_json *j, struct summary *s, int d) {
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

static void add_device(struct ct_json *j, struct summary *s, int d) {
    const struct ct_capacity c = ct_capacity_find(s->v->trace, &s->scan.end, d);
    const struct ct_device_scan *scan = &s->scan.device[d];
    const struct ct_device_usage *now = &s->scan.end.readings.device[d];
    const struct ct_live_device *live = &s->scan.end.live.device[d];
    const struct ct_device_memory memory = ct_scan_memory(&s->scan, d);
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", d);
    ct_document_add_string(j, "name", ct_capacity_device_name(s->v->trace, d));
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
    ct_json_number_or_null(j, "history_peak_width_ns", past.known, past.peak_width_ns);
    ct_json_number_or_null(j, "history_oom_count", past.known, past.ooms);
    ct_json_number_or_null(j, "used_peak_bytes", scan->used_peak_known, scan->used_peak);
    ct_json_number_or_null(j, "free_bytes_min", now->free_known, now->free_min);
    ct_json_number_or_null(j, "context_bytes", now->context_known, now->context_bytes);
    ct_json_number_or_null(j, "module_bytes", now->module_known, now->module_bytes);
    ct_json_number_or_null(j, "limit_bytes", now->limit_known, now->limit_bytes);
    ct_document_add_memory_of_device(j, &memory);
    add_pool(j, s, d);
    ct_json_close(j, '}');
}

static void add_holdings(struct ct_json *j, struct summary *s, const char *key, int there) {
    char label[400];
    ct_json_open(j, key, '[');
    for (size_t i = 0; there && i < s->live.holding_count; i++) {
        const struct ct_holding *h = &s->live.holdings[i];
        if (s->v->options->top && i >= s->v->options->top)
            break;
        ct_site_groups_label(s->v->sites, h->kind, h->stack, label, sizeof label);
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "kind", ct_holding_kind_name(h->kind));
        ct_json_number(j, "bytes", h->bytes);
        ct_json_number(j, "count", h->count);
        ct_json_text(j, "site", label);
        ct_call_sites_json_stack(j, s->v->sites, "stack", h->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void print_json(struct summary *s) {
    struct ct_json json = {.out = s->v->out}, *j = &json;
    const int budget = s->v->options->capacity != 0;
    ct_document_begin(j, s->v);
    ct_document_add_trace(j, s->v, &s->scan);
    ct_json_number_or_null(j, "budget_bytes", budget, s->v->options->capacity);
    ct_pool_json_add_without_blocks(j, s->v->trace);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->scan.device[d].seen)
            add_device(j, s, d);
    ct_json_close(j, ']');
    ct_json_number(j, "host_bytes", s->scan.end.live.host_bytes);
    ct_document_add_incidents(j, s->v, &s->scan.incidents, s->crossing);
    add_holdings(j, s, "live_at_crossing", s->crossing != NULL);
    add_holdings(j, s, "live_at_peak", s->crossing == NULL);
    ct_document_end(j);
}

static void read_live(struct summary *s) {
    const struct ct_device_scan *d = &s->scan.device[s->device];
    if (!s->crossing)
        (void)ct_peak_totals_get(&d->totals, CT_TOTALS_AT_PEAK, d->peak_event, CT_ROWS_BY_BLOCK,
                                 &s->live);
    // The crossing is the last OOM, unless a later retry of that one succeeded or there is a
    // budget.
    else if (!ct_peak_totals_get(&d->totals, CT_TOTALS_AT_OOM, s->crossing->event, CT_ROWS_BY_BLOCK,
                                 &s->live))
        ct_live_at_before(&s->live, s->v->trace, s->crossing->event, s->device);
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
        read_live(&s);
        const struct ct_device_memory memory = ct_scan_memory(&s.scan, s.device);
        // (at the crossing, it includes the reading that came with the OOM)
        s.live.split = s.crossing ? memory.crossing : memory.peak;
    }
    if (v->options->json)
        print_json(&s);
    else
        print_text(&s);
    ct_live_at_free(&s.live);
    ct_scan_free(&s.scan);
    return CT_EXIT_OK;
}
