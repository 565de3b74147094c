// SPDX-License-Identifier: Apache-2.0
#include "command/report.h"

#include "answer/companions.h"
#include "answer/time_range.h"
#include "answer/view_scan.h"
#include "cli/argument_table.h"
#include "command/opened_trace.h"
#include "print/document.h"
#include "print/trace_state.h"
#include "read/trace_part.h"
#include "views/explain.h"
#include "views/gate.h"
#include "views/quick.h"
#include "views/views.h"

int ct_report_error(const struct ct_error *error, int in_list) {
    ct_terminal_warn(error->text);
    if (in_list)
        fputs("null", stdout);
    return (int)error->status;
}

static int (*const views[CT_COMMANDS])(struct ct_view *) = {
#define CT_COMMAND(name, usage, help, example) ct_view_##name,
#include "cli/arguments.def"
};

static int show(struct ct_view *v, int in_list) {
    struct ct_error error;
    if (ct_time_range_resolve(v, &error) || ct_view_scan_check_device(v, &error))
        return ct_report_error(&error, in_list);
    if (!v->options->seal)
        ct_restrictions_warn(v);
    ct_restrictions_print(v);
    if (ct_trace_state_is_unknown(v->trace) && ct_document_print_unknown(v))
        return CT_EXIT_OK;
    return views[v->options->command](v);
}

// Shows a trace with what stands beside it.
static int show_with_companions(struct ct_view *v, int in_list) {
    struct ct_companions companions;
    struct ct_error error;
    if (ct_companions_read(v->options, &companions, &error))
        return ct_report_error(&error, in_list);
    ct_companions_choose_lines(&companions, v->trace);
    v->companions = &companions;
    const int status = show(v, in_list);
    v->companions = NULL;
    ct_companions_free(&companions);
    return status;
}

int ct_report_judge(struct ct_view *v, struct ct_view *before) {
    fflush(stdout);
    return ct_gate_judge(v, before);
}

static int report_opened(struct ct_opened_trace *s, const struct ct_phase_rules *rules,
                         const struct ct_report_place *place) {
    struct ct_view *const v = &s->view;
    v->processes = place->processes;
    v->process = place->process;
    v->page = place->page;
    if (!s->options.json) // (what is said of a file goes beside one on standard output)
        v->out = ct_terminal_open_text(
            v->terminal, s->options.output && !strcmp(s->options.output, "-") ? stderr : stdout);
    ct_opened_trace_begin(s, rules);
    int status = show_with_companions(v, place->in_list);
    if (v->out != stdout)
        fclose(v->out);
    if (s->options.fail_on.count && status != CT_EXIT_USAGE)
        status = ct_gate_worse(status, ct_report_judge(v, NULL));
    ct_opened_trace_end(s);
    if (!status && ct_command_is_about_trace(s->options.command) &&
        ct_opened_trace_is_incomplete(s))
        status = CT_EXIT_INCOMPLETE;
    return status;
}

// ---- without reading all events -----------------------------------------------------------------

static int show_moment(struct ct_opened_trace *s, struct ct_moment_part *p,
                       const struct ct_phase_rules *rules) {
    struct ct_view *const v = &s->view;
    if (!s->options.json)
        v->out = ct_terminal_open_text(v->terminal, stdout);
    ct_opened_trace_begin(s, rules);
    const int status = ct_moment_quick_print(p, v);
    ct_opened_trace_end(s);
    if (v->out != stdout)
        fclose(v->out);
    return status;
}

static int report_moment(const struct ct_arguments *o, const struct ct_terminal *terminal,
                         const struct ct_phase_rules *rules, const char *path,
                         const struct ct_report_place *place) {
    struct ct_opened_trace s;
    struct ct_moment_part *p = ct_heap_alloc_zeroed(1, sizeof *p);
    struct ct_error error;
    int status = ct_opened_trace_open_headers(&s, o, terminal, path, &error);
    if (!status) {
        ct_trace_headers_read_facts(&s.trace);
        status = ct_moment_quick_read(p, &s.view, &error);
    }
    status = status ? ct_report_error(&error, place->in_list) : show_moment(&s, p, rules);
    ct_moment_part_free(p);
    free(p);
    ct_opened_trace_close(&s);
    return status;
}

static int report_quick(const struct ct_arguments *o, const struct ct_terminal *terminal,
                        const struct ct_phase_rules *rules, const char *path,
                        const struct ct_report_place *place) {
    return o->command == CT_COMMAND_summary ? ct_summary_quick(o, terminal, path, place->in_list)
                                            : report_moment(o, terminal, rules, path, place);
}

static int report(const struct ct_arguments *o, const struct ct_terminal *terminal,
                  const struct ct_phase_rules *rules, const char *path,
                  const struct ct_report_place *place) {
    struct ct_opened_trace opened;
    struct ct_error error;
    if (o->quick)
        return report_quick(o, terminal, rules, path, place);
    if (o->command == CT_COMMAND_summary && o->path_count == 1)
        ct_summary_quick_show_headline(o, terminal, path);
    const int status = ct_opened_trace_open(&opened, o, terminal, path, &error)
                           ? ct_report_error(&error, place->in_list)
                           : report_opened(&opened, rules, place);
    ct_opened_trace_close(&opened);
    return status;
}

// ---- explain, whose input may be no trace -------------------------------------------------------

// A text has no trace, and neither has a snapshot.
static int explain_input(const struct ct_arguments *o, const struct ct_terminal *terminal,
                         struct ct_explain_input *input, struct ct_error *error) {
    if (o->log[0] || o->rules || ct_view_scan_is_moment_asked(o)) {
        (void)ct_error_set(error, CT_EXIT_USAGE,
                           "%.400s is no trace: --log, --rules and --at need one", input->path);
        return error->status;
    }
    return ct_explain_print(o, terminal, input, error);
}

static int explain(const struct ct_arguments *o, const struct ct_terminal *terminal,
                   const struct ct_phase_rules *rules, const char *path,
                   const struct ct_report_place *place) {
    struct ct_explain_input input;
    struct ct_error error;
    if (ct_source_is_named(path))
        return report(o, terminal, rules, path, place);
    int is_trace = 0, status = ct_explain_open(&input, path, &error);
    if (!status)
        is_trace = ct_explain_is_trace(&input);
    if (is_trace)
        status = ct_explain_make_seekable(&input, &error);
    else if (!status)
        status = explain_input(o, terminal, &input, &error);
    ct_explain_close(&input);
    if (status)
        return ct_report_error(&error, place->in_list);
    return is_trace ? report(o, terminal, rules, input.path, place) : status;
}

int ct_report_trace(const struct ct_arguments *o, const struct ct_terminal *terminal,
                    const struct ct_phase_rules *rules, const char *path,
                    const struct ct_report_place *place) {
    return o->command == CT_COMMAND_explain ? explain(o, terminal, rules, path, place)
                                            : report(o, terminal, rules, path, place);
}
