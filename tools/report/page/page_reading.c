// SPDX-License-Identifier: Apache-2.0
// The first pass is the summary's scan, which phases, leaks and frag begin with, too. The second
// one finds phases, samples of the fragmentation, what is live for leaks, and the moments that are
// drawn; the third one how call sites grew, and what is drawn. (A summary of a failure may need
// more.)
#include "page/page.h"

#include "analyze/phase_times.h"
#include "answer/view.h"
#include "page/html.h"
#include "print/document.h"
#include "print/label.h"
#include "print/trace_state.h"
#include "question/pass.h"
#include "sites/site_groups.h"
#include "views/steps.h"
#include "views/views.h"

// ---- phases -------------------------------------------------------------------------------------
// The phases of a run as a table in HTML, whose times are links to their moments.

enum { SITES = 3 };

static void put_sites(FILE *out, struct ct_view *v, const struct ct_phase_time *p) {
    struct ct_site_groups groups;
    size_t n;
    struct ct_holding *list = ct_phase_time_list(p, &n);
    ct_site_groups_build(&groups, v->sites, list, n);
    if (groups.count)
        fputs("<ul>", out);
    for (size_t i = 0; i < groups.count && i < SITES; i++) {
        fputs("<li>", out);
        ct_html_text(out, ct_label_size(v, groups.list[i].bytes).text);
        putc(' ', out);
        ct_html_text(out, groups.list[i].label);
        fputs("</li>", out);
    }
    if (groups.count)
        fputs("</ul>", out);
    ct_site_groups_free(&groups);
    free(list);
}

static void put_phase(FILE *out, struct ct_view *v, const struct ct_phase_time *p) {
    const int is_known = p->at.phase != CT_PHASE_UNKNOWN;
    fputs("<tr><td class=\"number\">", out);
    ct_page_moment_link(out, v, p->begin_ns, v->options->device);
    fputs("</td>", out);
    ct_html_cell(out, "number", p->duration_ns ? ct_human_seconds(p->duration_ns).text : "0 s");
    ct_html_cell(out, "number", ct_human_count(p->stretches).text);
    ct_html_cell(out, "number", ct_label_size(v, p->taken_bytes).text);
    ct_html_cell(out, "number", ct_label_size(v, p->kept_bytes).text);
    ct_html_cell(out, "number", ct_label_size(v, p->given_back_bytes).text);
    ct_html_cell(out, "number", ct_label_size(v, p->peak_bytes).text);
    fputs("<td class=\"phase\">", out);
    ct_html_text(out, is_known ? ct_phases_title(&p->at).text : "(no known phase)");
    put_sites(out, v, p);
    fputs("</td></tr>\n", out);
}

static void put_marks(FILE *out, struct ct_view *v, const struct ct_program_marks *m) {
    char label[160];
    if (!m->count)
        return;
    fputs("<h3>Marks of the program</h3><table class=\"program-marks\"><tbody>\n", out);
    for (unsigned i = 0; i < CT_PROGRAM_MARKS; i++) {
        if (!m->part[i].count)
            continue;
        fputs("<tr><td class=\"number\">", out);
        ct_page_moment_link(out, v, m->part[i].t_ns, v->options->device);
        fputs("</td>", out);
        ct_program_marks_label(m, &m->part[i], label, sizeof label);
        ct_html_cell(out, "mark", label);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
}

static void put_phases(FILE *out, struct ct_view *v, const struct ct_phase_times *p) {
    if (!p->count) {
        fputs("<p>No event of a program", out);
        ct_html_text(out, ct_trace_state_until(v).text);
        fputs(".</p>\n", out);
        return;
    }
    fprintf(out, "<p>Phases %s%s.</p>\n",
            p->by_frames ? "by the frames of Python in the stacks"
                         : "by what the program does (no stack names a phase)",
            p->summed ? ", each with all its stretches" : ", in the order of time");
    fputs("<table class=\"phases\"><thead><tr><th class=\"number\">begin</th><th class=\"number\">"
          "duration</th><th class=\"number\">times</th><th class=\"number\">taken</th><th "
          "class=\"number\">kept</th><th class=\"number\">given back</th><th class=\"number\">peak"
          "</th><th>phase, and who took most in it</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < p->count; i++)
        put_phase(out, v, &p->list[i]);
    fputs(
        "</tbody></table>\n<p class=\"hint\">Taken: allocated in the phase, and PyTorch\xe2\x80\x99s "
        "blocks; kept: of that, still live at its end; peak: of what was tracked.</p>\n",
        out);
    put_marks(out, v, &p->marks);
}

enum { COLUMNS = 110 };

const struct ct_terminal ct_page_terminal = {
    .width = COLUMNS, .utf8 = 1, .bold = "", .red = "", .dim = "", .reset = ""};

// ---- what a view prints, kept in memory ---------------------------------------------------------

// A view of a command with options of its own.
struct printed {
    struct ct_view view;
    struct ct_arguments options;
    FILE *memory;
    char *text;
    size_t bytes;
};

static void begin_print(struct printed *p, const struct ct_view *v, enum ct_command command,
                        int json) {
    p->view = *v;
    p->options = *v->options;
    p->options.command = command;
    p->options.json = json;
    p->view.options = &p->options;
    p->memory = ct_heap_open_text(&p->text, &p->bytes);
    p->view.out = p->memory;
    if (json)
        return;
    p->view.terminal = &ct_page_terminal;
    p->view.out = ct_terminal_open_text(&ct_page_terminal, p->memory);
}

static char *end_print(struct printed *p) {
    if (p->view.out != p->memory)
        fclose(p->view.out);
    fclose(p->memory);
    return p->text;
}

char *ct_page_reading_print(const struct ct_view *v, enum ct_command command,
                            int (*view)(struct ct_view *)) {
    struct printed p;
    begin_print(&p, v, command, 0);
    (void)view(&p.view);
    return end_print(&p);
}

typedef void print_fn(const void *shown, struct ct_view *v);

// Prints a view as text, with the labels that the page's call sites have everywhere.
static void print_text(struct ct_page_reading *r, const struct ct_view *v, enum ct_command command,
                       const void *shown, print_fn *print) {
    struct printed p;
    begin_print(&p, v, command, 0);
    print(shown, &p.view);
    r->text[command] = end_print(&p);
}

// Prints a view as JSON, with the labels that the command alone would give. If nothing is known of
// the trace, the document says that.
static void print_json(struct ct_page_reading *r, const struct ct_view *v, enum ct_command command,
                       const void *shown, print_fn *print) {
    struct ct_call_sites sites;
    struct printed p;
    ct_call_sites_init(&sites, v->sites->definitions);
    sites.all_frames = v->sites->all_frames;
    sites.in_text = v->sites->in_text;
    sites.in_json = v->sites->in_json;
    sites.omits_stacks = 1;
    begin_print(&p, v, command, 1);
    p.view.sites = &sites;
    if (!ct_trace_state_is_unknown(v->trace) || !ct_document_print_unknown(&p.view))
        print(shown, &p.view);
    r->json[command] = end_print(&p);
    ct_call_sites_free(&sites);
}

static void print_both(struct ct_page_reading *r, const struct ct_view *v, enum ct_command command,
                       const void *shown, print_fn *print) {
    print_text(r, v, command, shown, print);
    print_json(r, v, command, shown, print);
}

// HTML in place of text: times in it are links.
static void write_phases(struct ct_page_reading *r, struct ct_view *v,
                         const struct ct_phase_times *times) {
    size_t bytes = 0;
    FILE *memory = ct_heap_open_text(&r->text[CT_COMMAND_phases], &bytes);
    put_phases(memory, v, times);
    ct_heap_close_text(memory);
}

static void print_phases(const void *shown, struct ct_view *v) {
    ct_phases_print(shown, v);
}

static void print_leaks(const void *shown, struct ct_view *v) {
    ct_leaks_shown_print(shown, v);
}

static void print_frag(const void *shown, struct ct_view *v) {
    ct_frag_print(shown, v);
}

static void print_info(const void *shown, struct ct_view *v) {
    const struct ct_page_reading *r = shown;
    const uint64_t lost = ct_trace_count_lost(v->trace, r->summary.scan.lost);
    if (v->options->json)
        ct_info_print_json(v, &r->share, NULL, lost);
    else
        ct_info_print_facts(v);
}

static void print_summary(struct ct_page_reading *r, struct ct_view *v) {
    struct printed p;
    begin_print(&p, v, CT_COMMAND_summary, 1);
    r->summary.v = &p.view;
    v->sites->omits_stacks = 1;
    if (!ct_trace_state_is_unknown(v->trace) || !ct_document_print_unknown(&p.view))
        ct_summary_print_json(&r->summary);
    v->sites->omits_stacks = 0;
    r->summary.v = v;
    r->json[CT_COMMAND_summary] = end_print(&p);
}

// ---- the passes ---------------------------------------------------------------------------------

struct passes {
    struct ct_pass second, third;
    struct ct_phase_times phases;
    struct ct_leaks_shown *leaks;
    struct ct_frag_shown *frag;
};

static void join_second(struct passes *p, struct ct_page_reading *r, struct ct_view *v,
                        const struct ct_phase_start_up *u) {
    const struct ct_phase_times_request request = ct_phases_request(v);
    const struct ct_scan *scan = &r->summary.scan;
    ct_phase_times_join(&p->phases, &p->second.listeners, &request, u);
    p->leaks = ct_leaks_shown_join_first(&p->second.listeners, v, scan);
    p->frag = ct_frag_begin(v, scan, CT_FRAG_TEXT | CT_FRAG_JSON);
    const struct ct_listener frag = ct_frag_listener(p->frag);
    ct_listeners_add(&p->second.listeners, &frag);
    ct_frag_read_scan(p->frag);
    const struct ct_listener share = ct_untracked_share_listener(&r->share, v->trace);
    ct_listeners_add(&p->second.listeners, &share);
    for (int d = 0; d < CT_DEVICES; d++) {
        r->has_series[d] = scan->device[d].seen;
        if (r->has_series[d])
            ct_device_series_join_first(&p->second.listeners, &r->series[d], v, scan, d);
    }
}

// The labels of call sites are refined by what leaks shows, and then used by all that follows.
static void join_third(struct passes *p, struct ct_page_reading *r, struct ct_view *v) {
    ct_leaks_shown_join_second(&p->third.listeners, p->leaks);
    for (int d = 0; d < CT_DEVICES; d++)
        if (r->has_series[d])
            ct_device_series_join_second(&p->third.listeners, &r->series[d], v, &r->summary.scan);
}

static void finish_second(struct passes *p, struct ct_page_reading *r, struct ct_view *v) {
    ct_frag_go_to_moment(p->frag);
    print_both(r, v, CT_COMMAND_frag, p->frag, print_frag);
    write_phases(r, v, &p->phases);
    print_json(r, v, CT_COMMAND_phases, &p->phases, print_phases);
    print_both(r, v, CT_COMMAND_info, r, print_info);
    ct_frag_free(p->frag);
    ct_phase_times_free(&p->phases);
    ct_pass_free(&p->second);
}

static void finish_third(struct passes *p, struct ct_page_reading *r, struct ct_view *v) {
    ct_leaks_shown_finish(p->leaks);
    print_both(r, v, CT_COMMAND_leaks, p->leaks, print_leaks);
    ct_leaks_shown_free(p->leaks);
    ct_pass_free(&p->third);
}

void ct_page_reading_begin(struct ct_page_reading *r, struct ct_view *v) {
    struct ct_phase_start_up *u = ct_heap_alloc_zeroed(1, sizeof *u);
    memset(r, 0, sizeof *r);
    u->request = ct_phases_request(v);
    ct_summary_read_with(&r->summary, v, ct_phase_times_need_start_up(&u->request) ? u : NULL);
    print_summary(r, v);
    r->start_up = u;
}

void ct_page_reading_finish(struct ct_page_reading *r, struct ct_view *v) {
    struct passes p;
    ct_pass_init(&p.second, NULL);
    join_second(&p, r, v, r->start_up);
    ct_pass_run(&p.second, v->trace);
    ct_pass_init(&p.third, NULL);
    join_third(&p, r, v);
    finish_second(&p, r, v); // before the third: two replays at once would take twice the memory
    ct_pass_run(&p.third, v->trace);
    finish_third(&p, r, v);
}

void ct_page_reading_free(struct ct_page_reading *r) {
    for (unsigned i = 0; i < CT_COMMANDS; i++) {
        free(r->text[i]);
        free(r->json[i]);
    }
    for (int d = 0; d < CT_DEVICES; d++)
        if (r->has_series[d])
            ct_device_series_free(&r->series[d]);
    free(r->start_up);
    ct_summary_free(&r->summary);
}
