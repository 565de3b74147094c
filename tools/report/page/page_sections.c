// SPDX-License-Identifier: Apache-2.0
#include "page/page.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "page/html.h"
#include "print/label.h"
#include "print/trace_state.h"
#include "print/verdict.h"
#include "sites/site_groups.h"
#include "views/neighbours.h"
#include "views/processes.h"
#include "views/steps.h"

enum { SITE_ROWS = 40, LISTED_ROWS = 20, FAILURE_ROWS = 100, ALSO_POSSIBLE = 2 };

// ---- the text of a view ------------------------------------------------------------------------

static void put_text(FILE *out, const char *text) {
    fputs("<pre>", out);
    ct_html_text(out, text);
    fputs("</pre>\n", out);
}

// ---- the verdict -------------------------------------------------------------------------------

static void put_evidence(FILE *out, const struct ct_view *v, const struct ct_verdict *one) {
    if (!one->evidence_count)
        return;
    fputs("<h3>Evidence</h3>\n<ul class=\"evidence\">\n", out);
    for (size_t i = 0; i < one->evidence_count; i++) {
        const struct ct_evidence *e = &one->evidence[i];
        char label[1024];
        fputs("<li>", out);
        ct_html_text(out, e->text);
        if (e->stack) {
            ct_call_sites_label(v->sites, e->stack, label, sizeof label);
            fputs(": <code>", out);
            ct_html_text(out, label);
            fputs("</code>", out);
        }
        if (e->event_known) {
            fprintf(out, " (event %" PRIu64 " at ", e->event);
            ct_page_moment_link(out, v, e->t_ns, one->device);
            putc(')', out);
        }
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
}

static int names_setting(const struct ct_verdict *one) {
    for (size_t i = 0; i < one->advice_count; i++)
        if (one->advice[i].flag || one->advice[i].from || one->advice[i].to ||
            one->advice[i].versions)
            return 1;
    return 0;
}

// Without a setting, all that a table has is its sentences.
static void put_sentences(FILE *out, const struct ct_verdict *one) {
    fputs("<ul class=\"advice\">\n", out);
    for (size_t i = 0; i < one->advice_count; i++) {
        fputs("<li>", out);
        ct_html_text(out, one->advice[i].text);
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
}

// (A telephone, where the cells of a row stand below each other, shows no dashes.)
static void put_advice_cell(FILE *out, const char *class, const char *text) {
    ct_html_cell(out, text ? class : "none", text ? text : "-");
}

static void put_advice(FILE *out, const struct ct_verdict *one) {
    if (!one->advice_count)
        return;
    fputs("<h3>What to change</h3>\n", out);
    if (!names_setting(one)) {
        put_sentences(out, one);
        return;
    }
    fputs("<table class=\"advice\"><thead><tr><th>setting</th><th>from"
          "</th><th>to</th><th>why</th><th>versions</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < one->advice_count; i++) {
        const struct ct_advice *a = &one->advice[i];
        fputs("<tr>", out);
        put_advice_cell(out, "flag", a->flag);
        put_advice_cell(out, "number", a->from);
        put_advice_cell(out, "number to", a->to);
        ct_html_cell(out, "why", a->text);
        put_advice_cell(out, "versions", a->versions);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
}

static void put_sureness(FILE *out, const struct ct_verdict *one) {
    if (one->scenario != CT_SCENARIO_NONE)
        fprintf(out, " <span class=\"scenario\">(%s)</span>", ct_verdict_name(one).text);
}

static void put_refuted_by(FILE *out, const struct ct_verdict *one) {
    if (!one->refuted_by)
        return;
    fputs("<p class=\"refuted\">Wrong if there is ", out);
    ct_html_text(out, one->refuted_by);
    fputs("</p>\n", out);
}

// Titles and summaries of verdicts begin with a small letter.
static void put_sentence(FILE *out, const char *text) {
    if (!*text)
        return;
    putc(toupper((unsigned char)*text), out);
    ct_html_text(out, text + 1);
}

static void put_first(FILE *out, const struct ct_view *v, const struct ct_verdict *one) {
    fputs("<h1>", out);
    put_sentence(out, ct_scenario_title(one->scenario));
    if (one->device >= 0) {
        fputs(", ", out);
        ct_html_text(out, ct_label_device(one->device).text);
    }
    put_sureness(out, one);
    fputs("</h1>\n<p class=\"summary\">", out);
    put_sentence(out, one->summary);
    fputs(".</p>\n", out);
    put_evidence(out, v, one);
    put_advice(out, one);
    put_refuted_by(out, one);
}

static void put_other(FILE *out, const struct ct_view *v, const struct ct_verdict *one) {
    fputs("<details><summary>Also possible: ", out);
    ct_html_text(out, ct_scenario_title(one->scenario));
    put_sureness(out, one);
    fputs("</summary>\n<p>", out);
    ct_html_text(out, one->summary);
    fputs(".</p>\n", out);
    put_evidence(out, v, one);
    put_advice(out, one);
    put_refuted_by(out, one);
    fputs("</details>\n", out);
}

// With --from and --to all of the page is of that time.
static void put_range(FILE *out, const struct ct_view *v) {
    if (!v->from_ns && v->to_ns == UINT64_MAX)
        return;
    fputs("<p class=\"range\">Of the events", out);
    if (v->from_ns) {
        fputs(" from ", out);
        ct_html_text(out, ct_label_time(v, v->from_ns).text);
    }
    if (v->to_ns != UINT64_MAX) {
        fputs(" up to ", out);
        ct_html_text(out, ct_label_time(v, v->to_ns).text);
    } else {
        fputs(" on", out);
    }
    fputs(" alone.</p>\n", out);
}

static void write_verdict(FILE *out, struct ct_view *v, const struct ct_summary *s) {
    const struct ct_verdicts *l = &s->verdicts;
    put_range(out, v);
    for (size_t i = 0; i < l->count && i <= ALSO_POSSIBLE; i++)
        if (!i)
            put_first(out, v, &l->list[i]);
        else if (l->list[i].scenario != CT_SCENARIO_NONE) // (beside a problem it is none)
            put_other(out, v, &l->list[i]);
}

// ---- tables ------------------------------------------------------------------------------------

static void put_share(FILE *out, uint64_t bytes, uint64_t whole) {
    ct_html_cell(out, "number", whole ? ct_human_percent(bytes, whole).text : "-");
}

// The processes that NVML listed, this one among them.
static void put_listed(FILE *out, struct ct_view *v, const struct ct_summary *s) {
    char label[CT_NEIGHBOUR_LABEL], growth[CT_NEIGHBOUR_GROWTH];
    const uint64_t t_ns = ct_summary_moment_ns(s);
    size_t count;
    const struct ct_neighbour **list =
        ct_neighbours_list(&s->notes.neighbours, s->device, t_ns, &count);
    if (count)
        fputs("<table class=\"processes\"><caption>Processes by NVML</caption><thead><tr>"
              "<th>bytes</th><th>process</th><th>growth until then</th></tr></thead><tbody>\n",
              out);
    for (size_t i = 0; i < count && i < LISTED_ROWS; i++) {
        const uint64_t value = ct_neighbour_at(list[i], t_ns);
        ct_neighbour_label(&v->trace->definitions, list[i], label);
        ct_neighbour_growth(v, list[i], t_ns, s->capacity.bytes, growth);
        fputs("<tr>", out);
        ct_html_cell(out, "number",
                     CT_NEIGHBOUR_IS_BYTES(value) ? ct_label_size(v, value).text : "-");
        ct_html_cell(out, NULL, label);
        ct_html_cell(out, NULL, growth);
        fputs("</tr>\n", out);
    }
    fputs(count ? "</tbody></table>\n" : "", out);
    if (count > LISTED_ROWS)
        fprintf(out, "<p>%zu more processes</p>\n", count - LISTED_ROWS);
    free(list);
}

static void write_account(FILE *out, struct ct_view *v, const struct ct_summary *s) {
    const struct ct_account *a = &s->account;
    const uint64_t whole = a->known ? a->capacity : a->tracked;
    if (s->device < 0)
        return;
    fputs("<table class=\"account\"><caption>", out);
    ct_html_text(out, ct_label_device_in_full(v, s->device, NULL).text);
    fputs(s->crossing ? " at the failed allocation" : " at the peak", out);
    fputs("</caption><thead><tr><th>bytes</th><th>share</th><th>what</th></tr></thead><tbody>\n",
          out);
    for (unsigned i = 0; i < CT_ACCOUNT_ROWS; i++) {
        if (!a->row[i].bytes)
            continue;
        fputs("<tr>", out);
        ct_html_cell(out, "number", ct_label_size(v, a->row[i].bytes).text);
        put_share(out, a->row[i].bytes, whole);
        fputs("<td>", out);
        ct_html_text(out, ct_account_row_title((enum ct_account_row_kind)i));
        fputs(a->row[i].inferred ? " (inferred)</td></tr>\n" : "</td></tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
    put_listed(out, v, s);
}

static void write_live(FILE *out, struct ct_view *v, const struct ct_summary *s) {
    struct ct_site_groups g = {0};
    if (s->device < 0)
        return;
    ct_site_groups_build(&g, v->sites, s->live.holdings, s->live.holding_count);
    fputs("<table class=\"sites\"><caption>", out);
    ct_html_text(out, ct_label_device_in_full(v, s->device, NULL).text);
    fputs(s->crossing ? " at the failed allocation" : " at the peak", out);
    fputs("</caption><thead><tr><th>bytes</th><th>share</th><th>count</th><th>call site</th></tr>"
          "</thead><tbody>\n",
          out);
    for (size_t i = 0; i < g.count && i < SITE_ROWS; i++) {
        fputs("<tr>", out);
        ct_html_cell(out, "number", ct_label_size(v, g.list[i].bytes).text);
        put_share(out, g.list[i].bytes, s->live.bytes);
        ct_html_cell(out, "number", ct_human_count(g.list[i].count).text);
        ct_html_cell(out, "site", g.list[i].label);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
    if (g.count > SITE_ROWS)
        fprintf(out, "<p>%zu more call sites</p>\n", g.count - SITE_ROWS);
    ct_site_groups_free(&g);
}

static void put_failure(FILE *out, struct ct_view *v, const struct ct_summary *s,
                        const struct ct_incident_group *g) {
    const struct ct_incidents *n = &s->scan.incidents;
    const struct ct_oom_event *o = ct_incidents_head(n, g->shown);
    const struct ct_capacity capacity = ct_capacity_find(v->trace, &s->scan.end, o->device);
    char *request = ct_verdict_request(v, o, capacity.bytes),
         *cause = ct_verdict_cause(v, o, &s->scan.growths);
    fputs(o == s->crossing ? "<tr class=\"crossing\"><td>" : "<tr><td>", out);
    ct_page_moment_link(out, v, o->t_ns, o->device);
    fputs("</td>", out);
    ct_html_cell(out, NULL, ct_label_device(o->device).text);
    if (g->count > 1) {
        char *all = ct_verdict_all_alike(v, n, g);
        fputs("<td>", out);
        ct_html_text(out, request);
        fputs("<br><small>", out);
        ct_html_text(out, all);
        fputs("</small></td>", out);
        free(all);
    } else {
        ct_html_cell(out, NULL, request);
    }
    ct_html_cell(out, NULL, cause);
    ct_html_cell(out, NULL, ct_phases_title_of_event(&o->phase).text);
    ct_html_cell(out, NULL, o->recovered ? "a request of this size succeeded later" : "-");
    fputs("</tr>\n", out);
    free(request);
    free(cause);
}

static void write_failures(FILE *out, struct ct_view *v, const struct ct_summary *s) {
    const size_t n = s->scan.incidents.count;
    if (!n) { // and the verdict is another one than that
        fputs("<p>No allocation failed", out);
        ct_html_text(out, ct_trace_state_until(v).text);
        ct_html_text(out, ct_trace_state_as_far(v->trace, s->scan.lost));
        fputs(".</p>\n", out);
        return;
    }
    fputs("<table class=\"failures\"><thead><tr><th>time</th><th>device</th><th>request</th>"
          "<th>cause</th><th>during</th><th>later</th></tr></thead><tbody>\n",
          out);
    struct ct_incident_groups g;
    ct_incident_groups_find(&g, &s->scan.incidents, s->crossing);
    for (size_t k = 0; k < g.count && k < FAILURE_ROWS; k++)
        put_failure(out, v, s, &g.list[k]);
    fputs("</tbody></table>\n", out);
    if (g.count > FAILURE_ROWS)
        fprintf(out, "<p>of %zu more call sites or outcomes</p>\n", g.count - FAILURE_ROWS);
    ct_incident_groups_free(&g);
}

static void write_map(FILE *out, struct ct_view *v, const struct ct_summary *s) {
    (void)v;
    (void)s;
    fputs("<noscript><p>A picture alone: it needs JavaScript.</p></noscript>\n", out);
}

static int print_state(struct ct_view *v) {
    struct ct_coverage c;
    ct_coverage_read(&c, v->trace);
    ct_trace_state_print_incomplete(v);
    ct_trace_state_print_estimate(v);
    ct_trace_state_print_line_with(v, 0);
    ct_coverage_print_facts(v, &c);
    ct_coverage_free(&c);
    return 0;
}

static void write_method(FILE *out, struct ct_view *v, const struct ct_summary *s) {
    char *state = ct_page_reading_print(v, CT_COMMAND_info, print_state);
    char limits[CT_COVERAGE_LIMITS];
    (void)ct_coverage_limits_write(v, ct_trace_count_lost(v->trace, s->scan.lost), limits);
    fputs(
        "<p>libcutrace.so was loaded into the process and recorded each call of CUDA's driver and "
        "runtime and of PyTorch's allocator that takes or gives back memory. Tracked memory is "
        "exact, to the byte. Untracked memory is what the device reported as used and none of "
        "these calls took: it is known at readings, and between two of them inferred. Where "
        "physical memory lies is the driver's secret: the map shows virtual addresses.</p>\n"
        "<p class=\"limits\">Limits: ",
        out);
    ct_html_text(out, limits);
    fputs(".</p>\n", out);
    put_text(out, state);
    free(state);
}

// ---- a trace -----------------------------------------------------------------------------------

static int has_device(const struct ct_summary *s) {
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->scan.device[d].seen)
            return 1;
    return 0;
}

// That nothing failed is the verdict then.
static int is_failure_told(const struct ct_summary *s) {
    return s->scan.incidents.count || !s->verdicts.count ||
           s->verdicts.list[0].scenario != CT_SCENARIO_NONE;
}

// What a section has of a trace: HTML of its own, then the text of a command.
static const struct {
    int is_shown;
    int (*has_any)(const struct ct_summary *s); // else the section is left out; NULL: it is there
    void (*write)(FILE *out, struct ct_view *v, const struct ct_summary *s);
    int has_text, is_html; // of the command
    enum ct_command command;
} writers[CT_PAGE_SECTIONS] = {
    [CT_PAGE_VERDICT] = {.is_shown = 1, .write = write_verdict},
    [CT_PAGE_TIMELINE] = {.is_shown = 1, .has_any = has_device, .write = write_account},
    [CT_PAGE_LIVE] = {.is_shown = 1, .has_any = has_device, .write = write_live},
    [CT_PAGE_GROWTH] = {.is_shown = 1, .has_text = 1, .command = CT_COMMAND_leaks},
    [CT_PAGE_MAP] = {.is_shown = 1, .has_any = has_device, .write = write_map},
    [CT_PAGE_FRAGMENTATION] = {.is_shown = 1, .has_text = 1, .command = CT_COMMAND_frag},
    [CT_PAGE_FAILED] = {.is_shown = 1, .has_any = is_failure_told, .write = write_failures},
    [CT_PAGE_PHASES] = {.is_shown = 1, .has_text = 1, .is_html = 1, .command = CT_COMMAND_phases},
    [CT_PAGE_ENVIRONMENT] = {.is_shown = 1, .has_text = 1, .command = CT_COMMAND_info},
    [CT_PAGE_METHOD] = {.is_shown = 1, .write = write_method}};

static int is_left_out(unsigned i, const struct ct_summary *s) {
    return !writers[i].is_shown || (writers[i].has_any && !writers[i].has_any(s));
}

// Where there is one trace, the verdict names its process and no other section need.
static void put_process(FILE *out, const struct ct_page *p, unsigned i, const char *title) {
    if (i != CT_PAGE_VERDICT && !p->has_processes)
        return;
    fputs(i == CT_PAGE_VERDICT ? "<p class=\"process\">" : "<h3 class=\"process\">", out);
    ct_html_text(out, title);
    fputs(i == CT_PAGE_VERDICT ? "</p>\n" : "</h3>\n", out);
}

void ct_page_sections_begin(struct ct_page *p, struct ct_view *v, const struct ct_summary *s,
                            const char *title) {
    for (unsigned i = 0; i < CT_PAGE_SECTIONS; i++) {
        FILE *out = p->section[i].out;
        if (is_left_out(i, s))
            continue;
        fprintf(out, "<div class=\"trace\" data-trace=\"%u\">\n", p->traces);
        put_process(out, p, i, title);
        if (writers[i].write)
            writers[i].write(out, v, s);
    }
}

void ct_page_sections_finish(struct ct_page *p, const struct ct_page_reading *r) {
    for (unsigned i = 0; i < CT_PAGE_SECTIONS; i++) {
        FILE *out = p->section[i].out;
        if (is_left_out(i, &r->summary))
            continue;
        if (writers[i].is_html)
            fputs(r->text[writers[i].command], out);
        else if (writers[i].has_text)
            put_text(out, r->text[writers[i].command]);
        fputs("</div>\n", out);
    }
}

static void put_processes(struct ct_page *p, const char *element,
                          void (*print)(struct ct_processes_shown *s)) {
    FILE *out = p->section[CT_PAGE_RANKS].out;
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = ct_heap_open_text(&text, &bytes);
    p->processes.out = ct_terminal_open_text(&ct_page_terminal, memory);
    print(&p->processes);
    fclose(p->processes.out);
    ct_heap_close_text(memory);
    fprintf(out, "<%s>", element);
    ct_html_text(out, text);
    fprintf(out, "</%.*s>\n", (int)strcspn(element, " "), element);
    free(text);
}

void ct_page_sections_write_processes(struct ct_page *p) {
    put_processes(p, "p class=\"answer\"", ct_processes_text_print_answer);
    put_processes(p, "pre", ct_processes_text_print);
}
