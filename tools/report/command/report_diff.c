// SPDX-License-Identifier: Apache-2.0
#include "command/report.h"

#include "answer/time_range.h"
#include "answer/view_scan.h"
#include "command/opened_trace.h"
#include "command/restrictions.h"
#include "views/gate.h"
#include "views/views.h"

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
