// SPDX-License-Identifier: Apache-2.0
// summary: the verdict first, then the figures behind it, in 24 lines where possible.
#include <inttypes.h>
#include <string.h>

#include "analyze/coarse_history.h"
#include "answer/summary_read.h"
#include "base/heap.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "diagnose/text_verdicts.h"
#include "print/companions_print.h"
#include "print/memory_table.h"
#include "print/pool_print.h"
#include "print/print.h"
#include "print/trace_state.h"
#include "print/verdict.h"
#include "views/frag_parts.h"
#include "views/neighbours.h"
#include "views/steps.h"
#include "views/views.h"

// What the text leaves out, one after the other, until it fits on a screen.
enum {
    BRIEF = 1, // what other commands show at the same place
    BRIEF_WITHOUT_PEAK,
    BRIEF_WITHOUT_CALLERS,                // of the call that failed; its call site stays
    BRIEF_WITHOUT_OTHERS,                 // how many incidents there were in all
    BRIEF_WITHOUT_CAUSE,                  // whose figures are in the headline and the account
    BRIEF_WITHOUT_NEIGHBOURS,             // which the account has in one sum
    BRIEF_MOST = BRIEF_WITHOUT_NEIGHBOURS // a verdict keeps its sentence and its advice
};

// ---- the verdict --------------------------------------------------------------------------------

static void print_budget_verdict(struct ct_summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    fprintf(v->out, "%s would have exceeded %s: ", ct_label_device_in_full(v, c->device, NULL).text,
            ct_label_budget(v).text);
    if (c->op == CT_OP_MEMORY_SAMPLE) {
        fprintf(v->out, "a reading showed %s in use", ct_label_size(v, c->split.used).text);
        return;
    }
    char *request = ct_verdict_request(v, c, 0);
    fprintf(v->out, "%s%s", request, c->result ? ", and failed" : "");
    free(request);
}

static void print_oom_verdict(struct ct_summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    const struct ct_oom_reason reason = ct_oom_reason_find(c, 0);
    char *request = ct_verdict_request(v, c, 0);
    const int retried = s->scan.incidents.list[c->incident].retried;
    fputs(retried ? "Recovered from " : "", v->out); // (the program did not notice)
    if (reason.kind == CT_OOM_REASON_HOST_MEMORY)
        fputs("OUT OF HOST MEMORY", v->out);
    else if (reason.kind == CT_OOM_REASON_ADDRESS_SPACE)
        fputs("OUT OF ADDRESS SPACE", v->out);
    else
        fprintf(v->out, "OUT OF MEMORY on %s", ct_label_device_in_full(v, c->device, NULL).text);
    fprintf(v->out, ": %s", request);
    if (c->recovered)
        fprintf(v->out, "; %s succeeded %s later",
                retried ? "PyTorch's retry" : "a request of this size",
                ct_human_duration(c->recovered_t_ns - c->t_ns).text);
    free(request);
}

static void print_not_exceeded(struct ct_summary *s) {
    const struct ct_view *v = s->v;
    fprintf(v->out, "Nothing exceeded %s", ct_label_budget(v).text);
    if (s->capacity.bytes && s->capacity.bytes < v->options->capacity)
        fprintf(v->out, ", but %s has only %s", ct_label_device(s->device).text,
                ct_label_size(v, s->capacity.bytes).text);
    fputs(s->scan.incidents.oom_count ? ", and OOMs occurred. " : ". ", v->out);
}

// " up to +4.200 s", where what came later is not known or left out.
static struct ct_human_text until(const struct ct_summary *s) {
    if (!s->has_moment)
        return ct_trace_state_until(s->v);
    return ct_human_format(" up to %.30s", ct_label_time(s->v, s->moment.t_ns).text);
}

// What the log says of memory that ran out; NULL: nothing.
static const struct ct_text_fact *find_said(const struct ct_view *v) {
    return v->companions && v->companions->has_log ? ct_text_verdicts_main_oom(&v->companions->log)
                                                   : NULL;
}

static void print_quiet_verdict(struct ct_summary *s) {
    const struct ct_view *v = s->v;
    const struct ct_device_scan *d = s->device >= 0 ? &s->scan.device[s->device] : NULL;
    const uint64_t whole = v->options->capacity ? v->options->capacity : s->capacity.bytes;
    const char *as_far = ct_trace_state_as_far(v->trace, s->scan.lost);
    const struct ct_text_fact *said = find_said(v);
    if (!d || !d->peak_known) {
        fprintf(v->out, "No GPU memory was allocated, and no OOM occurred%s%s", until(s).text,
                as_far);
        return;
    }
    if (v->options->capacity)
        print_not_exceeded(s);
    else if (said)
        fprintf(v->out,
                "No call for GPU memory failed%s%s, but the log says that memory ran out (line "
                "%" PRIu64 "): a pool of the program refused, or another process. ",
                until(s).text, as_far, said->line);
    else if (s->facts.exit_status)
        fprintf(v->out,
                "No OOM occurred%s%s, but the process ended with exit status %" PRIu64 "%s. ",
                until(s).text, as_far, s->facts.exit_status,
                v->companions && v->companions->has_log ? "" : " (why: add --log=LOG)");
    else
        fprintf(v->out, "No OOM occurred%s%s. ", until(s).text, as_far);
    if (!d->peak_bytes) {
        fprintf(v->out, "This process allocated nothing on %s",
                ct_label_device_in_full(v, s->device, NULL).text);
        return;
    }
    fprintf(v->out, "%s: %s", ct_label_device_in_full(v, s->device, NULL).text,
            ct_label_size(v, d->peak_bytes).text);
    if (whole)
        fprintf(v->out, " of %s (%s)", ct_label_size(v, whole).text,
                ct_human_percent(d->peak_bytes, whole).text);
    fprintf(v->out, " allocated at the peak, at %s%s", ct_verdict_time(v, d->peak_t_ns).text,
            ct_trace_state_doubt(v, d->peak_t_ns).text);
}

static void print_field(struct ct_view *v, const char *name, const char *text) {
    fprintf(v->out, "  %-8s " CT_WRAP_HANG "%s\n", name, text);
}

// Prints "when     +12.345 s (15:04:44Z), vLLM sampler warm-up; event 1620".
static void print_event(struct ct_summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    fprintf(v->out, "  %-8s " CT_WRAP_HANG "%s", "when", ct_verdict_time(v, c->t_ns).text);
    if (c->phase.phase != CT_PHASE_UNKNOWN)
        fprintf(v->out, ", %s%s", ct_phases_title_of_event(&c->phase).text,
                c->phase.inferred ? " (by time)" : "");
    fprintf(v->out, "; event %" PRIu64, c->event);
    if (c->flags & CT_FLAG_NVML) // by the recorder, not by a call of the program
        fputs(", a reading by NVML", v->out);
    putc('\n', v->out);
}

static void print_crossing(struct ct_summary *s) {
    struct ct_view *v = s->v;
    const struct ct_oom_event *c = s->crossing;
    char *text = ct_verdict_cause(v, c, &s->scan.growths);
    if (s->brief < BRIEF_WITHOUT_CAUSE || !s->verdicts.count)
        print_field(v, "cause", text);
    free(text);
    if (c->stack) {
        fprintf(v->out, "  %-8s " CT_WRAP_HANG, "where");
        ct_print_callers(v, c->stack, s->brief < BRIEF_WITHOUT_CALLERS ? 3 : 1);
        putc('\n', v->out);
    } else if (!(c->flags & CT_FLAG_NVML)) {
        print_field(v, "where", "- (no stack was recorded)");
    }
    print_event(s);
    if (s->scan.incidents.count > 1 && !v->options->capacity && s->brief < BRIEF_WITHOUT_OTHERS) {
        text = ct_verdict_incidents(&s->scan.incidents);
        print_field(v, "in all", text);
        free(text);
    }
}

// Prints the first verdict and its first advice, unless it says no more than the headline does.
static void print_scenario(struct ct_summary *s) {
    const struct ct_verdict *first = s->verdicts.count ? &s->verdicts.list[0] : NULL;
    if (!first || first->scenario == CT_SCENARIO_NONE || first->scenario == CT_SCENARIO_RECOVERED)
        return;
    struct ct_view *v = s->v;
    fprintf(v->out, "  %-8s " CT_WRAP_HANG "%s: %s\n", "verdict", ct_verdict_name(first).text,
            first->summary);
    ct_verdicts_print_change(v, first);
}

static void print_verdict(struct ct_summary *s) {
    struct ct_view *v = s->v;
    if (s->has_moment)
        ct_verdict_print_moment(v, &s->moment);
    fputs(s->crossing ? v->terminal->red : v->terminal->bold, v->out);
    if (s->crossing && v->options->capacity)
        print_budget_verdict(s);
    else if (s->crossing)
        print_oom_verdict(s);
    else
        print_quiet_verdict(s);
    fprintf(v->out, "%s\n", v->terminal->reset);
    print_scenario(s);
    if (s->crossing)
        print_crossing(s);
}

// ---- the figures behind it ----------------------------------------------------------------------

static struct ct_human_text name_moment(const struct ct_summary *s) {
    if (s->has_moment)
        return ct_human_format("at %.35s", ct_label_time(s->v, s->moment.t_ns).text);
    return ct_human_format("%s", s->crossing ? "at that moment" : "at the peak");
}

static void print_host(struct ct_summary *s, uint64_t allocated) {
    struct ct_view *v = s->v;
    fprintf(v->out, "page-locked host memory %s: %s", s->when.text,
            ct_label_size(v, allocated).text);
    if (s->host_registered)
        fprintf(v->out, " allocated, %s registered", ct_label_size(v, s->host_registered).text);
    fputs(" (see frag)\n", v->out);
}

static void print_memory(struct ct_summary *s) {
    const struct ct_torch_pool_totals *pool = ct_summary_pool(s);
    const uint64_t host = ct_summary_live(s)->host_bytes;
    const struct ct_memory_table table = {.device = s->device,
                                          .when = s->when.text,
                                          .capacity = &s->capacity,
                                          .live = ct_summary_live(s),
                                          .account = s->has_moment ? &s->account_then : &s->account,
                                          .components = s->components,
                                          .without_parts = s->brief >= BRIEF_WITHOUT_PEAK,
                                          .pool = pool};
    ct_memory_table_print(s->v, &table);
    ct_frag_program_print_sum(s->v, &s->program_pools);
    // Why there are no blocks is said always.
    if (s->brief < BRIEF_WITHOUT_PEAK || !pool->known)
        ct_pool_text_print_summary(s->v, pool, &s->scan.growths.device[s->device]);
    if (!s->brief && (host || s->host_registered))
        print_host(s, host);
}

// What NVML lists besides this process.
static void print_neighbours(struct ct_summary *s) {
    const size_t most = s->brief ? 1 : 3;
    const int is_cause = s->verdicts.count && s->verdicts.list[0].scenario == CT_SCENARIO_CO_TENANT;
    if (s->brief >= BRIEF_WITHOUT_NEIGHBOURS && !is_cause)
        return;
    ct_neighbours_print(s->v, &s->notes.neighbours, s->device, ct_summary_moment_ns(s),
                        s->capacity.bytes, s->when.text, most);
}

static int has_imported(const struct ct_shared *m) {
    return m->imported != 0;
}
static int has_opened(const struct ct_shared *m) {
    return m->opened != 0;
}

// Prints " on GPU 1, GPU 2": where memory of other processes lies that is on another device than
// the text's.
static void print_places(const struct ct_summary *s, int (*has)(const struct ct_shared *m)) {
    const char *before = " on ";
    for (int d = 0; d < CT_MAX_DEVICES; d++)
        if (d != s->device && has(&s->shared[d])) {
            fprintf(s->v->out, "%s%s", before, ct_label_device(d).text);
            before = ", ";
        }
}

// Prints "shared at the peak: 64.00 MiB exported in 2 allocations; 66.00 MiB imported in 1 handle
// on GPU 1; 2 allocations of others by CUDA IPC, sizes unknown".
static void print_shared(struct ct_summary *s) {
    struct ct_view *v = s->v;
    const struct ct_shared m = ct_summary_sum_shared(s);
    const char *before = "";
    if (!ct_summary_has_shared(s))
        return;
    fprintf(v->out, "shared %s: ", s->when.text);
    if (!m.exported && !m.opened && !m.imported)
        fputs("nothing, but at other times (see dump)", v->out);
    if (m.exported) {
        fprintf(v->out, "%s exported in %s", ct_label_size(v, m.exported_bytes).text,
                ct_human_counted(m.exported, "allocation").text);
        before = "; ";
    }
    if (m.imported) {
        fprintf(v->out, "%s%s imported in %s", before, ct_label_size(v, m.imported_bytes).text,
                ct_human_counted(m.imported, "handle").text);
        print_places(s, has_imported);
        before = "; ";
    }
    if (m.opened) {
        fprintf(v->out, "%s%s of others by CUDA IPC", before,
                ct_human_counted(m.opened, "allocation").text);
        print_places(s, has_opened);
        fputs(", sizes unknown", v->out);
    }
    putc('\n', v->out);
}

// The call site that the verdict is about: of those that its evidence names the one that holds
// most. That a request failed there makes it none.
static size_t find_verdict_site(const struct ct_summary *s, const struct ct_site_groups *g) {
    const struct ct_verdict *first = s->verdicts.count ? &s->verdicts.list[0] : NULL;
    size_t best = CT_PRINT_NO_SITE;
    for (size_t i = 0; first && i < first->evidence_count; i++) {
        const struct ct_evidence *e = &first->evidence[i];
        const int is_request =
            s->crossing && e->event == s->crossing->event && (!i || e->stack == s->crossing->stack);
        for (int kind = 0; e->stack && !is_request && kind < CT_HOLDING_STACKS; kind++) {
            const size_t at =
                ct_site_groups_find(g, s->v->sites, (enum ct_holding_kind)kind, e->stack) - 1;
            best = at < best ? at : best; // (the groups are sorted)
        }
    }
    return best;
}

static void print_live(struct ct_summary *s, const struct ct_site_groups *groups, unsigned rows) {
    struct ct_view *v = s->v;
    const struct ct_live_totals *live = ct_summary_live(s);
    const int has_blocks = ct_summary_pool(s)->known && live->rows == CT_ROWS_BY_BLOCK;
    fprintf(v->out, "%slive %s%s: %s in %s%s\n", v->terminal->bold, s->when.text,
            v->terminal->reset, ct_label_size(v, live->bytes).text,
            ct_human_counted(live->count, "allocation").text,
            has_blocks ? ", PyTorch's by block" : "");
    if (live->count)
        ct_print_site_groups(v, groups, live->bytes, rows, find_verdict_site(s, groups));
}

static void print_other_devices(struct ct_summary *s) {
    enum { MOST = 4 };
    struct ct_view *v = s->v;
    unsigned devices = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (d == s->device || !s->scan.device[d].seen || devices++ >= MOST ||
            s->brief >= BRIEF_WITHOUT_PEAK)
            continue;
        fprintf(v->out, "%s%s peak %s", devices == 1 ? "other devices: " : "; ",
                ct_label_device(d).text, ct_label_size(v, s->scan.device[d].peak_bytes).text);
    }
    if (devices && s->brief >= BRIEF_WITHOUT_PEAK)
        fprintf(v->out, "other devices: %u (see top)", devices);
    else if (devices > MOST)
        fprintf(v->out, "; %u more (see top)", devices - MOST);
    fputs(devices ? "\n" : "", v->out);
}

// The command that is worth running next.
static const char *find_next(const struct ct_summary *s) {
    if (!s->scan.events)
        return "info";
    if (s->crossing && !s->v->options->capacity)
        return ct_oom_reason_find(s->crossing, 0).kind == CT_OOM_REASON_ENOUGH_FREE ? "frag"
                                                                                    : "oom";
    return s->leaks_count ? "leaks" : "top";
}

static void print_next(struct ct_summary *s) {
    struct ct_view *v = s->v;
    const char *next = find_next(s), *before = " (also: ";
    const char *const also[] = {"top", s->leaks_count ? "leaks" : next, "timeline", "frag", "dump"};
    fprintf(v->out, "%snext: cutrace-report %s ", v->terminal->dim, next);
    ct_utf8_print_sanitized(v->out, v->trace->source.name, strlen(v->trace->source.name));
    for (size_t i = 0; s->scan.events && !s->without_also && i < sizeof also / sizeof *also; i++)
        if (strcmp(also[i], next) != 0) {
            fprintf(v->out, "%s%s", before, also[i]);
            before = ", ";
        }
    fprintf(v->out, "%s%s\n", *before == ',' ? ")" : "", v->terminal->reset);
}

// Prints a higher peak and more failed calls in the overwritten period, which the events do not
// show.
static void print_overwritten(struct ct_summary *s) {
    struct ct_view *v = s->v;
    const struct ct_coarse_summary past = ct_coarse_history_summarize(v->trace, s->device);
    const struct ct_device_scan *d = &s->scan.device[s->device];
    const uint64_t more = ct_summary_count_overwritten_ooms(s);
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

static unsigned count_lines(const struct ct_terminal *t, const char *text) {
    char *laid_out = NULL;
    size_t size = 0;
    unsigned lines = 0;
    FILE *memory = ct_heap_open_text(&laid_out, &size), *out = ct_terminal_open_text(t, memory);
    fputs(text, out);
    ct_heap_close_text(out);
    ct_heap_close_text(memory);
    for (size_t i = 0; i < size; i++)
        lines += laid_out[i] == '\n';
    free(laid_out);
    return lines;
}

static struct part print_part(struct ct_summary *s, void (*print)(struct ct_summary *)) {
    struct part p = {.text = NULL};
    FILE *const out = s->v->out;
    size_t size = 0;
    s->v->out = ct_heap_open_text(&p.text, &size);
    print(s);
    ct_heap_close_text(s->v->out);
    s->v->out = out;
    p.lines = count_lines(s->v->terminal, p.text);
    return p;
}

static void print_top(struct ct_summary *s) {
    print_verdict(s);
    if (s->device >= 0) {
        print_memory(s);
        print_neighbours(s);
        print_shared(s);
    }
}

static void print_limits(struct ct_summary *s) {
    char text[CT_COVERAGE_LIMITS];
    const uint64_t lost = ct_trace_count_lost(s->v->trace, s->scan.lost);
    if (ct_coverage_limits_write(s->v, lost, text) || !s->without_limits)
        fprintf(s->v->out, "limits: %s\n", text);
}

static void print_bottom(struct ct_summary *s) {
    struct ct_view *v = s->v;
    const struct ct_device_scan *d = s->device >= 0 ? &s->scan.device[s->device] : NULL;
    if (d) {
        if (s->crossing && d->peak_known && !v->options->capacity &&
            s->brief < BRIEF_WITHOUT_PEAK &&
            !(s->brief && d->peak_bytes == ct_summary_live(s)->bytes))
            fprintf(v->out, "peak: %s allocated on %s at %s%s\n",
                    ct_label_size(v, d->peak_bytes).text, ct_label_device(s->device).text,
                    ct_verdict_time(v, d->peak_t_ns).text,
                    ct_trace_state_doubt(v, d->peak_t_ns).text);
        if (!s->crossing || !v->options->capacity) // it is of the whole run
            print_overwritten(s);
        print_other_devices(s);
    }
    ct_trace_state_print_line(v, &s->scan);
    print_limits(s);
}

// The table of call sites says what filled the device: other lines go before its first rows. It has
// two lines beside its rows, and a row of the rest; the line with the next command is the last.
enum { LINES = 24, HEADER = 2, REST = 1, NEXT = 1, FEWEST = 2, LEAST = 3 };

// The lines of a text at the width of a terminal, so that what is left out does not depend on it.
static unsigned count_at_80(const struct ct_summary *s, const char *text) {
    enum { WIDTH = 80 };
    struct ct_terminal form = *s->v->terminal;
    form.width = WIDTH;
    form.ellipsis = NULL;
    return count_lines(&form, text);
}

// The lines of the text with the fewest rows of the table.
static unsigned count_least(const struct ct_summary *s, const struct part *top,
                            const struct part *bottom, size_t sites) {
    const unsigned rows = sites < LEAST + REST ? (unsigned)sites : LEAST + REST;
    return count_at_80(s, top->text) + HEADER + rows + count_at_80(s, bottom->text) + NEXT;
}

// Prints what is above and below the table. Leaves out that there are no limits, the smallest
// components, and then what other commands show, too, until the text fits.
static void print_parts(struct ct_summary *s, struct part *top, struct part *bottom, size_t sites) {
    enum { LEAST_COMPONENTS = 2 };
    for (;;) {
        *top = print_part(s, print_top);
        *bottom = print_part(s, print_bottom);
        if (s->brief == BRIEF_MOST || count_least(s, top, bottom, sites) <= LINES)
            return;
        free(top->text);
        free(bottom->text);
        if (!s->without_limits)
            s->without_limits = 1;
        else if (s->components > LEAST_COMPONENTS)
            s->components--;
        else
            s->brief++;
    }
}

// Prints the table of call sites with as many rows as leave the text at 24 lines, at least two.
static void print_text(struct ct_summary *s) {
    struct part next = print_part(s, print_next), top, bottom;
    struct ct_site_groups groups = {.count = 0};
    const struct ct_live_totals *live = s->device >= 0 ? ct_summary_live(s) : NULL;
    if (live && live->count)
        ct_site_groups_build(&groups, s->v->sites, live->holdings, live->holding_count);
    print_parts(s, &top, &bottom, groups.count);
    if (count_at_80(s, next.text) > NEXT) {
        free(next.text);
        s->without_also = 1;
        next = print_part(s, print_next);
    }
    const unsigned others = top.lines + HEADER + REST + bottom.lines + next.lines;
    const unsigned asked = s->v->options->top;
    unsigned rows = LINES > others + FEWEST ? LINES - others : FEWEST;
    if (asked && asked < rows)
        rows = asked;
    fputs(top.text, s->v->out);
    if (live)
        print_live(s, &groups, rows);
    fputs(bottom.text, s->v->out);
    fputs(next.text, s->v->out);
    ct_site_groups_free(&groups);
    free(top.text);
    free(bottom.text);
    free(next.text);
}

int ct_view_summary(struct ct_view *v) {
    struct ct_summary s;
    ct_summary_read(&s, v);
    ct_notes_compare_warn(&s);
    ct_progress_clear();
    s.when = name_moment(&s);
    s.components = CT_MEMORY_TABLE_COMPONENTS;
    if (v->options->json) {
        ct_summary_print_json(&s);
    } else {
        print_text(&s);
        ct_companions_print(v, &s.scan.incidents);
    }
    ct_summary_free(&s);
    return CT_EXIT_OK;
}
