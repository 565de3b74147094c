// SPDX-License-Identifier: Apache-2.0
// summary: the verdict first, then the figures behind it, in 24 lines where possible.
#include <inttypes.h>
#include <string.h>

#include "analyze/coarse_history.h"
#include "analyze/host_memory.h"
#include "analyze/live_at.h"
#include "analyze/moment.h"
#include "base/heap.h"
#include "base/utf8.h"
#include "replay/torch_settings.h"
#include "views/account_json.h"
#include "views/companions.h"
#include "views/document.h"
#include "views/memory_table.h"
#include "views/pool_json.h"
#include "views/pool_text.h"
#include "views/print.h"
#include "views/resumed.h"
#include "views/trace_state.h"
#include "views/untracked.h"
#include "views/verdict.h"

struct summary {
    struct ct_view *v;
    struct ct_scan scan;
    const struct ct_oom_event *crossing;  // or NULL
    int device;                           // of the text; -1 = none was seen
    struct ct_capacity capacity;          // of that device
    struct ct_live_totals live;           // at the crossing, or at the peak
    struct ct_account account;            // of these
    struct ct_account at_end[CT_DEVICES]; // for JSON
    int brief;                            // leave out what other commands show, too
    unsigned components;                  // most rows of the account's components in the text
    struct ct_shared shared;              // likewise, of all devices
    uint64_t host_registered;             // likewise: bytes of page-locked host memory
};

// ---- the verdict --------------------------------------------------------------------------------

static void print_budget_verdict(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    fprintf(v->out, "%s would have exceeded %s at %s: ", ct_label_device(c->device).text,
            ct_label_budget(v).text, ct_verdict_time(v, c->t_ns).text);
    if (c->op == CT_OP_MEMORY_SAMPLE) {
        fprintf(v->out, "a reading showed %s in use", ct_label_size(v, c->split.used).text);
        return;
    }
    char *request = ct_verdict_request(v, c, 0);
    fprintf(v->out, "%s%s", request, c->result ? ", and failed" : "");
    free(request);
}

static void print_oom_verdict(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    const struct ct_oom_reason reason = ct_oom_reason_find(c, 0);
    char *request = ct_verdict_request(v, c, s->capacity.bytes);
    const int retried = s->scan.incidents.list[c->incident].retried;
    fputs(retried ? "Recovered from " : "", v->out); // (the program did not notice)
    if (reason.kind == CT_OOM_REASON_HOST_MEMORY)
        fputs("OUT OF HOST MEMORY", v->out);
    else if (reason.kind == CT_OOM_REASON_ADDRESS_SPACE)
        fputs("OUT OF ADDRESS SPACE", v->out);
    else
        fprintf(v->out, "OUT OF MEMORY on %s", ct_label_device(c->device).text);
    fprintf(v->out, " at %s: %s", ct_verdict_time(v, c->t_ns).text, request);
    if (c->recovered)
        fprintf(v->out, "; %s succeeded %s later",
                retried ? "PyTorch's retry" : "a request of this size",
                ct_human_duration(c->recovered_t_ns - c->t_ns).text);
    free(request);
}

static void print_not_exceeded(struct summary *s) {
    const struct ct_view *v = s->v;
    fprintf(v->out, "Nothing exceeded %s", ct_label_budget(v).text);
    if (s->capacity.bytes && s->capacity.bytes < v->options->capacity)
        fprintf(v->out, ", but %s has only %s", ct_label_device(s->device).text,
                ct_label_size(v, s->capacity.bytes).text);
    fputs(s->scan.incidents.oom_count ? ", and OOMs occurred. " : ". ", v->out);
}

static void print_quiet_verdict(struct summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_device_scan *d = s->device >= 0 ? &s->scan.device[s->device] : NULL;
    const uint64_t whole = v->options->capacity ? v->options->capacity : s->capacity.bytes;
    if (!d || !d->peak_known) {
        fprintf(v->out, "No GPU memory was allocated, and no OOM occurred%s",
                ct_trace_state_until(v).text);
        return;
    }
    if (v->options->capacity)
        print_not_exceeded(s);
    else
        fprintf(v->out, "No OOM occurred%s. ", ct_trace_state_until(v).text);
    if (!d->peak_bytes) {
        fprintf(v->out, "This process allocated nothing on %s", ct_label_device(s->device).text);
        return;
    }
    fprintf(v->out, "%s: %s", ct_label_device(s->device).text,
            ct_label_size(v, d->peak_bytes).text);
    if (whole)
        fprintf(v->out, " of %s (%s)", ct_label_size(v, whole).text,
                ct_human_percent(d->peak_bytes, whole).text);
    fprintf(v->out, " allocated at the peak, at %s", ct_verdict_time(v, d->peak_t_ns).text);
}

static void print_field(struct ct_view *v, const char *name, const char *text) {
    fprintf(v->out, "  %-8s " CT_WRAP_HANG "%s\n", name, text);
}

// Prints "during   vLLM sampler warm-up; event 1620, thread 5745 python3", or without a phase
// "event    1620, ...".
static void print_event(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    if (c->phase.phase == CT_PHASE_UNKNOWN)
        fprintf(v->out, "  %-8s %" PRIu64, "event", c->event);
    else
        fprintf(v->out, "  %-8s %s%s; event %" PRIu64, "during", ct_phases_title(&c->phase).text,
                c->phase.inferred ? " (by time)" : "", c->event);
    if (c->flags & CT_FLAG_NVML) { // by the recorder, not by a call of the program
        fputs(", a reading by NVML", v->out);
    } else if (c->thread) {
        fputs(", thread ", v->out);
        ct_verdict_print_thread(v, c->thread);
    }
    putc('\n', v->out);
}

static void print_crossing(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    char *text = ct_verdict_cause(v, c, &s->scan.growths);
    print_field(v, "cause", text);
    free(text);
    if (c->stack) {
        fprintf(v->out, "  %-8s ", "where");
        ct_print_callers(v, c->stack, 3);
        putc('\n', v->out);
    } else if (!(c->flags & CT_FLAG_NVML)) {
        print_field(v, "where", "- (no stack was recorded)");
    }
    print_event(s);
    if (s->scan.incidents.count > 1 && !v->options->capacity) {
        text = ct_verdict_incidents(&s->scan.incidents);
        print_field(v, "in all", text);
        free(text);
    }
}

static void print_verdict(struct summary *s) {
    struct ct_view *v = s->v;
    fputs(s->crossing ? v->terminal->red : v->terminal->bold, v->out);
    if (s->crossing && v->options->capacity)
        print_budget_verdict(s);
    else if (s->crossing)
        print_oom_verdict(s);
    else
        print_quiet_verdict(s);
    fprintf(v->out, "%s\n", v->terminal->reset);
    if (s->crossing)
        print_crossing(s);
}

// ---- the figures behind it ----------------------------------------------------------------------

static const char *when(const struct summary *s) {
    return s->crossing ? "at that moment" : "at the peak";
}

// Returns PyTorch's pool at the crossing, or at the peak.
static const struct ct_torch_pool_totals *pool_of(const struct summary *s) {
    return s->crossing ? &s->crossing->pool : &s->scan.device[s->device].pool_at_peak;
}

static void print_memory(struct summary *s) {
    const struct ct_memory_table table = {.device = s->device,
                                          .when = when(s),
                                          .capacity = &s->capacity,
                                          .live = &s->live,
                                          .account = &s->account,
                                          .components = s->components,
                                          .pool = pool_of(s)};
    ct_memory_table_print(s->v, &table);
    ct_pool_text_print_summary(s->v, pool_of(s), &s->scan.growths.device[s->device]);
    if (!s->brief && (s->live.host_bytes || s->host_registered))
        fprintf(s->v->out, "page-locked host memory %s: %s allocated, %s registered (see frag)\n",
                when(s), ct_label_size(s->v, s->live.host_bytes).text,
                ct_label_size(s->v, s->host_registered).text);
}

static int has_shared(const struct ct_scan *s) {
    return s->ops[CT_OP_EXPORT] || s->ops[CT_OP_IPC_OPEN] || s->ops[CT_OP_IMPORT];
}

// Prints "shared: 2 exported, 64.00 MiB; 1 of other processes open by CUDA IPC", of all devices:
// an import does not always report its device.
static void print_shared(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_shared *m = &s->shared;
    const char *before = "";
    if (!has_shared(&s->scan))
        return;
    fprintf(v->out, "shared with other processes %s: ", when(s));
    if (!m->exported && !m->opened && !m->imported)
        fputs("nothing, but at other times (see dump)", v->out);
    if (m->exported) {
        fprintf(v->out, "%s exported in %s allocation%s", ct_label_size(v, m->exported_bytes).text,
                ct_human_count(m->exported).text, ct_human_plural(m->exported));
        before = "; ";
    }
    if (m->imported) {
        fprintf(v->out, "%s%s imported in %s handle%s", before,
                ct_label_size(v, m->imported_bytes).text, ct_human_count(m->imported).text,
                ct_human_plural(m->imported));
        before = "; ";
    }
    if (m->opened)
        fprintf(v->out, "%s%s allocation%s of theirs open by CUDA IPC, of unknown size", before,
                ct_human_count(m->opened).text, ct_human_plural(m->opened));
    putc('\n', v->out);
}

static void print_live(struct summary *s, unsigned rows) {
    struct ct_view *v = s->v;
    struct ct_site_groups groups;
    const int has_blocks = pool_of(s)->known && s->live.rows == CT_ROWS_BY_BLOCK;
    fprintf(v->out, "%slive %s%s: %s in %s allocation%s%s\n", v->terminal->bold, when(s),
            v->terminal->reset, ct_label_size(v, s->live.bytes).text,
            ct_human_count(s->live.count).text, ct_human_plural(s->live.count),
            has_blocks ? ", PyTorch's by block" : "");
    if (!s->live.count)
        return;
    ct_site_groups_build(&groups, v->sites, s->live.holdings, s->live.holding_count);
    ct_print_site_groups(v, &groups, s->live.bytes, rows);
    ct_site_groups_free(&groups);
}

static void print_other_devices(struct summary *s) {
    enum { MOST = 4 };
    struct ct_view *v = s->v;
    unsigned devices = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (d == s->device || !s->scan.device[d].seen || devices++ >= MOST)
            continue;
        fprintf(v->out, "%s%s peak %s", devices == 1 ? "other devices: " : "; ",
                ct_label_device(d).text, ct_label_size(v, s->scan.device[d].peak_bytes).text);
    }
    if (devices > MOST)
        fprintf(v->out, "; %u more (see top)", devices - MOST);
    fputs(devices ? "\n" : "", v->out);
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
        calls += o->device == device && o->op != CT_OP_BLOCK_OOM;
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

// ---- the screen ---------------------------------------------------------------------------------

// A part of the text, before it is laid out, and the lines that it will take.
struct part {
    char *text;
    unsigned lines;
};

static FILE *open_memory(char **text, size_t *size) {
    FILE *out = open_memstream(text, size);
    if (!out)
        ct_heap_exhausted();
    return out;
}

static unsigned count_lines(const struct ct_terminal *t, const char *text) {
    char *laid_out = NULL;
    size_t size = 0;
    unsigned lines = 0;
    FILE *memory = open_memory(&laid_out, &size), *out = ct_terminal_open_text(t, memory);
    fputs(text, out);
    fclose(out);
    fclose(memory);
    for (size_t i = 0; i < size; i++)
        lines += laid_out[i] == '\n';
    free(laid_out);
    return lines;
}

static struct part print_part(struct summary *s, void (*print)(struct summary *)) {
    struct part p = {.text = NULL};
    FILE *const out = s->v->out;
    size_t size = 0;
    s->v->out = open_memory(&p.text, &size);
    print(s);
    if (fclose(s->v->out))
        ct_heap_exhausted();
    s->v->out = out;
    p.lines = count_lines(s->v->terminal, p.text);
    return p;
}

static void print_top(struct summary *s) {
    print_verdict(s);
    if (s->device >= 0) {
        print_memory(s);
        print_shared(s);
    }
}

static void print_bottom(struct summary *s) {
    struct ct_view *v = s->v;
    const struct ct_device_scan *d = s->device >= 0 ? &s->scan.device[s->device] : NULL;
    if (d) {
        if (s->crossing && d->peak_known && !v->options->capacity &&
            !(s->brief && d->peak_bytes == s->live.bytes))
            fprintf(v->out, "peak: %s allocated on %s at %s\n",
                    ct_label_size(v, d->peak_bytes).text, ct_label_device(s->device).text,
                    ct_verdict_time(v, d->peak_t_ns).text);
        if (!s->crossing || !v->options->capacity) // it is of the whole run
            print_overwritten(s);
        print_other_devices(s);
    }
    ct_trace_state_print_line(v, &s->scan);
    print_next(s);
}

// The table of call sites has two lines beside its rows, and a row of the rest.
enum { LINES = 24, HEADER = 2, REST = 1, LEAST = 1 };

// The lines of the text with the fewest rows of the table, in the form for bug reports: what is
// left out does not depend on the terminal.
static unsigned count_least(const struct summary *s, const struct part *top,
                            const struct part *bottom) {
    enum { WIDTH = 100 };
    struct ct_terminal form = *s->v->terminal;
    form.width = WIDTH;
    form.ellipsis = NULL;
    return count_lines(&form, top->text) + HEADER + LEAST + REST + count_lines(&form, bottom->text);
}

// Prints what is above and below the table. Leaves out the smallest components, and then what other
// commands show, too, until the text fits.
static void print_parts(struct summary *s, struct part *top, struct part *bottom) {
    enum { LEAST_COMPONENTS = 2 };
    for (;;) {
        *top = print_part(s, print_top);
        *bottom = print_part(s, print_bottom);
        if (s->brief || count_least(s, top, bottom) <= LINES)
            return;
        free(top->text);
        free(bottom->text);
        if (s->components > LEAST_COMPONENTS)
            s->components--;
        else
            s->brief = 1;
    }
}

// Prints the table of call sites with as many rows as leave the text at 24 lines, but at least 1.
static void print_text(struct summary *s) {
    struct part top, bottom;
    print_parts(s, &top, &bottom);
    const unsigned others = top.lines + bottom.lines + HEADER + REST, asked = s->v->options->top;
    unsigned rows = LINES > others + LEAST ? LINES - others : LEAST;
    if (asked && asked < rows)
        rows = asked;
    fputs(top.text, s->v->out);
    if (s->device >= 0)
        print_live(s, rows);
    fputs(bottom.text, s->v->out);
    free(top.text);
    free(bottom.text);
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
    ct_untracked_add_costs(j, &now->measured);
    ct_document_add_memory_of_device(j, &memory);
    ct_account_json_add_moments(j, s->v->phases, scan, &memory,
                                memory.crossing_known ? &s->account : NULL, &s->at_end[d]);
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
        ct_resumed_add_json(j, s->v, h->resumed_bytes, h->resumed_by);
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
    ct_json_number(j, "host_bytes_at_moment", s->live.host_bytes);
    ct_json_number(j, "host_registered_bytes_at_moment", s->host_registered);
    ct_document_add_shared(j, "shared_at_moment", &s->shared);
    ct_document_add_incidents(j, s->v, &s->scan, s->crossing);
    add_holdings(j, s, "live_at_crossing", s->crossing != NULL);
    add_holdings(j, s, "live_at_peak", s->crossing == NULL);
    ct_companions_add_json(j, s->v, &s->scan.incidents);
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

static uint64_t sum_registered(const struct ct_definitions *n, const struct ct_live *l) {
    size_t count;
    uint64_t sum = 0;
    struct ct_host_memory *list = ct_host_memory_list(n, l, &count);
    for (size_t i = 0; i < count; i++)
        sum += list[i].registered ? list[i].bytes : 0;
    free(list);
    return sum;
}

// Sums what is shared or registered at the moment of the text. Few traces have such memory: these
// are read once more.
static void read_moment(struct summary *s) {
    const struct ct_moment moment =
        ct_moment_find(&s->scan, s->v->trace, CT_MOMENT_OOM, s->device, 0);
    struct ct_sharing sharing = {0};
    struct ct_replay replay;
    if (!has_shared(&s->scan) && !s->scan.ops[CT_OP_REGISTER])
        return;
    ct_replay_init(&replay, NULL, NULL);
    ct_moment_replay(&moment, &replay, &sharing, s->v->trace);
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_shared m = ct_sharing_sum(&sharing, &replay.live, d);
        s->shared.exported += m.exported;
        s->shared.exported_bytes += m.exported_bytes;
        s->shared.opened += m.opened;
        s->shared.imported += m.imported;
        s->shared.imported_bytes += m.imported_bytes;
    }
    s->host_registered = sum_registered(&s->v->trace->definitions, &replay.live);
    ct_replay_free(&replay);
    ct_sharing_free(&sharing);
}

// Makes the accounts of the devices behind the last event.
static void read_end(struct summary *s) {
    struct ct_live_totals live;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!s->scan.device[d].seen)
            continue;
        ct_live_at_read(&live, &s->scan.end, d, CT_ROWS_BY_BLOCK);
        ct_scan_limit_free(&live.split, s->v->options->capacity);
        ct_account_make(&s->at_end[d], s->v->phases, &live);
        ct_live_at_free(&live);
    }
}

int ct_view_summary(struct ct_view *v) {
    struct summary s = {.v = v, .components = CT_MEMORY_TABLE_COMPONENTS};
    const struct ct_scan_request request = ct_view_scan_request_pools(v);
    ct_view_scan_run(v, &s.scan, &request);
    if (v->options->json)
        read_end(&s);
    ct_replay_release(&s.scan.end); // another replay follows
    s.crossing = ct_scan_find_crossing(&s.scan);
    s.device = s.crossing ? s.crossing->device : ct_view_scan_main_device(v, &s.scan);
    if (s.device >= 0) {
        s.capacity = ct_capacity_find(v->trace, &s.scan.end, s.device);
        read_live(&s);
        read_moment(&s);
        ct_site_groups_refine(v->sites, s.live.holdings, s.live.holding_count);
        const struct ct_device_memory memory = ct_scan_memory(&s.scan, s.device);
        // (at the crossing, it includes the reading that came with the OOM)
        s.live.split = s.crossing ? memory.crossing : memory.peak;
        ct_account_make(&s.account, v->phases, &s.live);
    }
    if (v->options->json) {
        print_json(&s);
    } else {
        print_text(&s);
        ct_companions_print(v, &s.scan.incidents);
    }
    ct_live_at_free(&s.live);
    ct_scan_free(&s.scan);
    return CT_EXIT_OK;
}
