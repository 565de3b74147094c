// SPDX-License-Identifier: Apache-2.0
// phases: the phases of a run, with what each took, kept and gave back, and its largest call sites.
#include "views/steps.h"

#include "print/document.h"
#include "print/label.h"
#include "print/print.h"
#include "print/table.h"
#include "print/trace_state.h"
#include "question/question.h"
#include "sites/site_groups.h"
#include "views/views.h"

enum { SITES = 3, INDENT = 2 };

// ---- text ---------------------------------------------------------------------------------------

static const struct ct_table_column columns[] = {
    {"begin", 0, CT_TABLE_RIGHT}, {"duration", 3, CT_TABLE_RIGHT},
    {"times", 5, CT_TABLE_RIGHT}, {"taken", 0, CT_TABLE_RIGHT},
    {"kept", 0, CT_TABLE_RIGHT},  {"given back", 2, CT_TABLE_RIGHT},
    {"peak", 1, CT_TABLE_RIGHT},  {"phase", 0, CT_TABLE_LABEL},
};

static const char *title_of(const struct ct_phase_time *p, struct ct_phase_title *title) {
    *title = ct_phases_title(&p->at);
    return p->at.phase == CT_PHASE_UNKNOWN ? "(no known phase)" : title->text;
}

static void add_cells(struct ct_view *v, struct ct_table *t, const struct ct_phase_time *p) {
    struct ct_phase_title title;
    ct_table_add_row(t, ct_label_time(v, p->begin_ns).text,
                     p->duration_ns ? ct_human_seconds(p->duration_ns).text : "0 s",
                     ct_human_count(p->stretches).text, ct_label_size(v, p->taken_bytes).text,
                     ct_label_size(v, p->kept_bytes).text,
                     ct_label_size(v, p->given_back_bytes).text,
                     ct_label_size(v, p->peak_bytes).text, title_of(p, &title), NULL);
}

static void add_sites(struct ct_view *v, struct ct_table *t, const struct ct_phase_time *p) {
    struct ct_site_groups groups;
    size_t n;
    struct ct_holding *list = ct_phase_time_list(p, &n);
    ct_site_groups_build(&groups, v->sites, list, n);
    for (size_t i = 0; i < groups.count && i < SITES; i++) {
        char *text = NULL;
        if (asprintf(&text, "  %12s  %s", ct_label_size(v, groups.list[i].bytes).text,
                     groups.list[i].label) < 0)
            ct_heap_exhausted();
        ct_table_add_row(t, text, NULL);
        free(text);
    }
    ct_site_groups_free(&groups);
    free(list);
}

static void print_text(struct ct_view *v, const struct ct_phase_times *p) {
    struct ct_table table;
    if (!p->count) {
        fprintf(v->out, "No event of a program%s\n", ct_trace_state_until(v).text);
        return;
    }
    fprintf(v->out, "%sphases%s %s%s\n", v->terminal->bold, v->terminal->reset,
            p->by_frames && ct_ranges_are_heard(&v->trace->definitions)
                ? "by the frames of Python in the stacks and the ranges of the program"
            : p->by_frames ? "by the frames of Python in the stacks"
                           : "by what the program does (no stack names a phase)",
            p->summed ? ", each with all its stretches" : ", in the order of time");
    ct_table_init(&table, columns, sizeof columns / sizeof *columns, INDENT);
    for (size_t i = 0; i < p->count; i++) {
        add_cells(v, &table, &p->list[i]);
        add_sites(v, &table, &p->list[i]);
    }
    ct_table_print(v, &table);
    fprintf(
        v->out,
        "%staken: allocated in the phase, below it by call site; kept: of that, live at its end; "
        "peak: of what was tracked%s\n",
        v->terminal->dim, v->terminal->reset);
    ct_program_marks_print(v, &p->marks);
    ct_trace_state_print_line_with(v, p->lost);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_json_sites(struct ct_json *j, struct ct_view *v, const struct ct_phase_time *p) {
    struct ct_site_groups groups;
    size_t n;
    struct ct_holding *list = ct_phase_time_list(p, &n);
    ct_site_groups_build(&groups, v->sites, list, n);
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < groups.count && i < SITES; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "kind", ct_holding_kind_name(groups.list[i].kind));
        ct_json_number(j, "taken_bytes", groups.list[i].bytes);
        ct_json_text(j, "site", groups.list[i].label);
        ct_call_sites_json_stack(j, v->sites, "stack", groups.list[i].stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_site_groups_free(&groups);
    free(list);
}

static void add_json_phase(struct ct_json *j, struct ct_view *v, const struct ct_phase_time *p) {
    ct_json_open(j, NULL, '{');
    ct_account_json_add_phase(j, &p->at);
    ct_json_number(j, "begin_t_ns", p->begin_ns);
    ct_json_number(j, "end_t_ns", p->end_ns);
    ct_json_number(j, "duration_ns", p->duration_ns);
    ct_json_number(j, "stretches", p->stretches);
    ct_json_number(j, "events", p->events);
    ct_json_number(j, "taken_bytes", p->taken_bytes);
    ct_json_number(j, "taken_count", p->taken_count);
    ct_json_number(j, "kept_bytes", p->kept_bytes);
    ct_json_number(j, "given_back_bytes", p->given_back_bytes);
    ct_json_number(j, "given_back_count", p->given_back_count);
    ct_json_number(j, "peak_tracked_bytes", p->peak_bytes);
    add_json_sites(j, v, p);
    ct_json_close(j, '}');
}

static void print_json(struct ct_view *v, const struct ct_phase_times *p) {
    struct ct_json json = {.out = v->out}, *j = &json;
    const struct ct_scan counted = {.lost = p->lost};
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, &counted);
    ct_json_bool(j, "by_frames", p->by_frames);
    ct_json_bool(j, "summed", p->summed);
    ct_json_open(j, "phases", '[');
    for (size_t i = 0; i < p->count; i++)
        add_json_phase(j, v, &p->list[i]);
    ct_json_close(j, ']');
    ct_document_end(j);
}

struct ct_phase_times_request ct_phases_request(const struct ct_view *v) {
    const struct ct_trace *t = v->trace;
    return (struct ct_phase_times_request){
        .phases = v->phases,
        .from_ns = v->from_ns,
        .to_ns = v->to_ns,
        .marks_from_ns = v->from_ns > t->t_first_ns ? v->from_ns : t->t_first_ns,
        .marks_to_ns = v->to_ns < t->t_last_ns ? v->to_ns : t->t_last_ns,
        .device = v->options->device};
}

void ct_phases_print(const struct ct_phase_times *p, struct ct_view *v) {
    if (v->options->json)
        print_json(v, p);
    else
        print_text(v, p);
}

int ct_view_phases(struct ct_view *v) {
    struct ct_phase_times times;
    const struct ct_phase_times_request request = ct_phases_request(v);
    ct_question_phases(&times, v->trace, &request);
    ct_phases_print(&times, v);
    ct_phase_times_free(&times);
    return CT_EXIT_OK;
}
