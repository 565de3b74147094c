// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "answer/time_range.h"
#include "answer/view_scan.h"
#include "base/utf8.h"
#include "command/opened_trace.h"
#include "command/report.h"
#include "page/page.h"
#include "views/explain.h"
#include "views/gate.h"
#include "views/processes.h"
#include "views/views.h"

// ---- two side by side ---------------------------------------------------------------------------

// Opens both; one trace is opened once.
static int open_diff(struct ct_opened_trace *a, struct ct_opened_trace *b,
                     const struct ct_arguments *o, const struct ct_terminal *terminal,
                     struct ct_error *error) {
    const int is_one = o->path_count == 1;
    const int failed_a = ct_opened_trace_open(a, o, terminal, o->paths[0], error);
    a->options.at = o->at_before;
    a->options.at_end = o->at_end_before;
    if (failed_a)
        ct_terminal_warn(error->text);
    if (!is_one && ct_opened_trace_open(b, o, terminal, o->paths[1], error)) {
        ct_terminal_warn(error->text);
        return -1;
    }
    if (is_one) {
        ct_opened_trace_share(b, a);
        b->options = *o;
    }
    return failed_a;
}

static int show_diff(struct ct_opened_trace *a, struct ct_opened_trace *b, int is_one) {
    struct ct_error error;
    if (ct_time_range_resolve(&a->view, &error) || ct_time_range_resolve(&b->view, &error) ||
        ct_view_scan_check_device(&a->view, &error) || ct_view_scan_check_device(&b->view, &error))
        return ct_report_error(&error, 0);
    ct_restrictions_warn(&a->view);
    if (!is_one)
        ct_restrictions_warn(&b->view);
    a->view.out = b->view.out =
        b->options.json ? stdout : ct_terminal_open_text(b->view.terminal, stdout);
    b->view.before = &a->view;
    ct_restrictions_print(&a->view);
    if (!is_one)
        ct_restrictions_print(&b->view);
    int status = ct_view_diff(&b->view);
    if (b->view.out != stdout)
        fclose(b->view.out);
    if (ct_opened_trace_is_incomplete(a) || ct_opened_trace_is_incomplete(b))
        status = CT_EXIT_INCOMPLETE;
    if (b->options.fail_on.count)
        status = ct_gate_worse(status, ct_report_judge(&b->view, &a->view));
    return status;
}

int ct_report_diff(const struct ct_arguments *o, const struct ct_terminal *terminal,
                   const struct ct_phase_rules *rules) {
    const int is_one = o->path_count == 1;
    struct ct_opened_trace a, b;
    struct ct_error error;
    int status = CT_EXIT_BAD_TRACE;
    if (open_diff(&a, &b, o, terminal, &error) == 0) {
        ct_opened_trace_begin(&a, rules);
        ct_opened_trace_begin(&b, rules);
        status = show_diff(&a, &b, is_one);
        ct_opened_trace_end(&a);
        ct_opened_trace_end(&b);
    }
    ct_opened_trace_close(&a);
    ct_opened_trace_close(&b);
    return status;
}

// ---- several ------------------------------------------------------------------------------------

static void print_title(const struct ct_terminal *terminal, const char *path, int is_first) {
    fputs(is_first ? "" : "\n", stdout);
    printf("%s== ", terminal->bold);
    ct_utf8_print_sanitized(stdout, path, strlen(path));
    printf(" ==%s\n", terminal->reset);
}

// Whether the command looks at several traces together.
static int is_of_processes(const struct ct_arguments *o) {
    if (o->path_count < 2 || o->quick ||
        (o->command != CT_COMMAND_summary && o->command != CT_COMMAND_explain))
        return 0;
    for (int i = 0; i < o->path_count && o->command == CT_COMMAND_explain; i++)
        if (!ct_explain_is_trace_file(o->paths[i]))
            return 0;
    return 1;
}

// Judges one of several traces that were reported together. One that cannot be read was reported.
static int judge_path(const struct ct_arguments *o, const struct ct_terminal *terminal,
                      const struct ct_phase_rules *rules, const char *path) {
    struct ct_opened_trace opened;
    struct ct_error error;
    int status = CT_EXIT_OK;
    if (ct_opened_trace_open(&opened, o, terminal, path, &error) == 0) {
        ct_opened_trace_begin(&opened, rules);
        (void)ct_time_range_resolve(&opened.view, &error); // (no range with several traces)
        status = ct_report_judge(&opened.view, NULL);
        ct_opened_trace_end(&opened);
    }
    ct_opened_trace_close(&opened);
    return status;
}

// The summary of several traces is one table, and their verdicts are one list.
static int report_processes(const struct ct_arguments *o, const struct ct_terminal *terminal,
                            const struct ct_phase_rules *rules) {
    struct ct_processes_shown s;
    struct ct_error error;
    if (ct_processes_check_options(o, &error) ||
        ct_processes_read(&s, o, terminal, rules, ct_restrictions_warn, &error))
        return ct_report_error(&error, 0);
    int status = ct_processes_print(&s);
    ct_processes_close(&s);
    for (int i = 0; i < o->path_count && o->fail_on.count; i++)
        status = ct_gate_worse(status, judge_path(o, terminal, rules, o->paths[i]));
    return status;
}

// One report after the other. The JSON of several traces is one object (JSON.md): the document of
// each, and that of `together`.
static int report_each(const struct ct_arguments *o, const struct ct_terminal *terminal,
                       const struct ct_phase_rules *rules, struct ct_processes_shown *together) {
    const int several = o->path_count > 1 && o->command != CT_COMMAND_dump;
    struct ct_report_place place = {.in_list = o->json && several,
                                    .processes = together ? &together->all : NULL};
    int status = CT_EXIT_OK;
    if (place.in_list)
        fputs("{\"schema\":\"cutrace.several/1\",\"documents\":[", stdout);
    if (!o->path_count)
        status = ct_report_trace(o, terminal, rules, "-", &place);
    for (int i = 0; i < o->path_count; i++) {
        if (place.in_list && i)
            putchar(',');
        if (!o->json && several)
            print_title(terminal, o->paths[i], i == 0);
        fflush(stdout);
        place.process = (size_t)i;
        const int one = ct_report_trace(o, terminal, rules, o->paths[i], &place);
        status = ct_gate_worse(status, one);
    }
    if (place.in_list)
        fputs("],\"processes\":", stdout);
    if (together)
        (void)ct_processes_print(together); // of the same traces: the same status
    if (place.in_list)
        fputs(together ? "}\n" : "null}\n", stdout);
    return status;
}

// The document of all traces follows those of each, unless the options are about one of them.
static int report_list(const struct ct_arguments *o, const struct ct_terminal *terminal,
                       const struct ct_phase_rules *rules) {
    struct ct_processes_shown together;
    struct ct_error error;
    if (ct_processes_check_options(o, &error))
        return report_each(o, terminal, rules, NULL);
    if (ct_processes_read(&together, o, terminal, rules, NULL, &error))
        return ct_report_error(&error, 0);
    const int status = report_each(o, terminal, rules, &together);
    ct_processes_close(&together);
    return status;
}

// One page of all traces that can be read.
int ct_report_page(const struct ct_arguments *o, const struct ct_terminal *terminal,
                   const struct ct_phase_rules *rules) {
    struct ct_page page;
    struct ct_report_place place = {.page = &page};
    struct ct_error error;
    int status = CT_EXIT_OK;
    if (ct_page_begin(&page, o, rules, &error))
        return ct_report_error(&error, 0);
    place.processes = page.has_processes ? &page.processes.all : NULL;
    for (int i = 0; i < (o->path_count ? o->path_count : 1); i++) {
        place.process = (size_t)i;
        const int one =
            ct_report_trace(o, terminal, rules, o->path_count ? o->paths[i] : "-", &place);
        status = ct_gate_worse(status, one);
    }
    if (ct_page_end(&page, &error))
        status = ct_report_error(&error, 0);
    ct_page_free(&page);
    return status;
}

int ct_report_several(const struct ct_arguments *o, const struct ct_terminal *terminal,
                      const struct ct_phase_rules *rules) {
    if (!is_of_processes(o))
        return report_each(o, terminal, rules, NULL);
    return o->json ? report_list(o, terminal, rules) : report_processes(o, terminal, rules);
}
