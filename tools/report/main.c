// SPDX-License-Identifier: Apache-2.0
// cutrace-report: parses the command line, opens each trace and calls the view of the command.
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/licenses.h"
#include "base/utf8.h"
#include "base/version.h"
#include "page/page.h"
#include "symbols/noise_document.h"
#include "symbols/source_locations.h"
#include "views/companions.h"
#include "views/document.h"
#include "views/explain.h"
#include "views/help.h"
#include "views/processes.h"
#include "views/progress.h"
#include "views/time_range.h"
#include "views/trace_state.h"

static int (*const views[CT_COMMANDS])(struct ct_view *) = {
#define CT_COMMAND(name, help, example) ct_view_##name,
#include "views/arguments.def"
};

// Sets a warning about what is, or may be, missing at the end of a trace. Returns 0 if nothing is.
static int check_end(const struct ct_trace *t, struct ct_error *e) {
    const char *name = t->source.name;
    if (t->journal_found < 0)
        return ct_error_set(e, CT_EXIT_OK, "warning: %.500s; the trace is reported without it",
                            t->journal_error.text);
    if (!t->incomplete || t->index.chunks[t->index.count - 1].head.version < 2)
        return 0; // (version 1 had no journal)
    if (strcmp(name, "-") == 0)
        return ct_error_set(
            e, CT_EXIT_OK,
            "warning: %s: no clean end, and standard input has no journal: the last "
            "events may be missing",
            name);
    return ct_error_set(
        e, CT_EXIT_OK,
        "warning: %s: no clean end, and its journal %s%s was %s: the last events may be "
        "missing",
        name, name, CT_JOURNAL_SUFFIX, t->no_journal ? "not read" : "not found");
}

static int is_about_trace(enum ct_command command) {
    return command != CT_COMMAND_seal && command != CT_COMMAND_symbolize;
}

// Warns in one line if the trace is damaged or incomplete, unless the view's first line says it.
static void warn_incomplete(const struct ct_view *v) {
    const struct ct_trace *t = v->trace;
    struct ct_error e;
    const struct ct_index *x = &t->index;
    if (x->damages) {
        ct_error_set(&e, CT_EXIT_OK,
                     "warning: %s: offset %" PRIu64 ": %s%s; everything else is reported",
                     t->source.name, x->damage[0].offset, x->damage[0].what,
                     x->damages > 1 ? " (the first of several places)" : "");
        ct_terminal_warn(e.text);
    } else if (x->missing) {
        ct_error_set(&e, CT_EXIT_OK,
                     "warning: %s: %" PRIu64 " chunks are missing; the rest is reported",
                     t->source.name, x->missing);
        ct_terminal_warn(e.text);
    } else if ((t->journal_found < 0 || v->options->json || !is_about_trace(v->options->command)) &&
               check_end(t, &e)) {
        ct_terminal_warn(e.text);
    }
}

// Every view begins with what restricts all that it says: the end of the trace is missing, its
// figures are estimates. The JSON of dump has events only, so there the warning goes to stderr.
static void print_restrictions(struct ct_view *v) {
    char text[400];
    if (!is_about_trace(v->options->command))
        return;
    if (!v->options->json) {
        ct_trace_state_print_incomplete(v);
        ct_trace_state_print_estimate(v);
    } else if (v->options->command == CT_COMMAND_dump &&
               ct_trace_state_estimate(v->trace, text, sizeof text))
        ct_terminal_warn(text);
}

static int shows_frames(enum ct_command command) {
    return command != CT_COMMAND_timeline && command != CT_COMMAND_stats &&
           command != CT_COMMAND_info && command != CT_COMMAND_check &&
           command != CT_COMMAND_seal && command != CT_COMMAND_symbolize;
}

// Says why a trace is not shown. `in_list`: it is an element of a JSON list, which is null then.
static int report_error(const struct ct_error *error, int in_list) {
    ct_terminal_warn(error->text);
    if (in_list)
        fputs("null", stdout);
    return (int)error->status;
}

static int show(struct ct_view *v, int in_list) {
    struct ct_error error;
    if (ct_time_range_resolve(v, &error))
        return report_error(&error, in_list);
    if (v->options->command != CT_COMMAND_seal)
        warn_incomplete(v);
    print_restrictions(v);
    if (ct_trace_state_is_unknown(v->trace) && ct_document_print_unknown(v))
        return CT_EXIT_OK;
    return views[v->options->command](v);
}

// Shows a trace with what stands beside it.
static int show_with_companions(struct ct_view *v, int in_list) {
    struct ct_companions companions;
    struct ct_error error;
    if (ct_companions_read(v->options, &companions, &error))
        return report_error(&error, in_list);
    v->companions = &companions;
    const int status = show(v, in_list);
    v->companions = NULL;
    ct_companions_free(&companions);
    return status;
}

// What is wanted of each trace.
struct request {
    const struct ct_arguments *arguments;
    const struct ct_terminal *terminal;
    const struct ct_phase_rules *rules;
    struct ct_page *page; // of the command html
    int in_list;          // each is an element of a JSON list
};

static int report(const struct request *q, const char *path) {
    const struct ct_arguments *o = q->arguments;
    struct ct_trace trace = {.details =
                                 o->command == CT_COMMAND_dump || o->command == CT_COMMAND_stats,
                             .no_journal = o->no_journal,
                             .sealing = o->force && o->command == CT_COMMAND_seal,
                             .progress = ct_progress_report};
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_error error;
    int status;
    if (ct_trace_open(&trace, path, &error)) {
        status = report_error(&error, q->in_list);
    } else {
        struct ct_view v = {.options = o,
                            .terminal = q->terminal,
                            .trace = &trace,
                            .sites = &sites,
                            .phases = &phases,
                            .page = q->page};
        v.out = o->json ? stdout : ct_terminal_open_text(q->terminal, stdout);
        if (shows_frames(o->command))
            ct_source_locations_look_up(&trace.definitions, &o->lines);
        ct_call_sites_init(&sites, &trace.definitions);
        ct_phases_init(&phases, &trace.definitions, q->rules);
        sites.all_frames = o->all_frames;
        if (o->have_demangling)
            sites.in_text = sites.in_json = o->demangling;
        status = show_with_companions(&v, q->in_list);
        if (v.out != stdout)
            fclose(v.out);
        ct_phases_free(&phases);
        ct_call_sites_free(&sites);
        if (!status && is_about_trace(o->command) &&
            (trace.incomplete || (o->strict && !ct_trace_is_intact(&trace))))
            status = CT_EXIT_INCOMPLETE;
    }
    ct_progress_clear();
    ct_trace_close(&trace);
    return status;
}

static void print_title(const struct ct_terminal *terminal, const char *path, int is_first) {
    fputs(is_first ? "" : "\n", stdout);
    printf("%s== ", terminal->bold);
    ct_utf8_print_sanitized(stdout, path, strlen(path));
    printf(" ==%s\n", terminal->reset);
}

// The summary of several traces is one table. Its JSON follows those of the traces.
static int report_processes(const struct ct_arguments *o, const struct ct_terminal *terminal) {
    struct ct_error error;
    if (ct_processes_check_options(o, &error))
        return o->json ? CT_EXIT_OK : report_error(&error, 0);
    if (o->json)
        putchar(',');
    return ct_processes_print(o, terminal, o->json ? NULL : warn_incomplete);
}

// A text has no trace, and neither has a snapshot.
static int explain_input(const struct request *q, struct ct_explain_input *input,
                         struct ct_error *error) {
    const struct ct_arguments *o = q->arguments;
    if (o->log || o->metrics || o->rules) {
        (void)ct_error_set(error, CT_EXIT_USAGE,
                           "%.400s is no trace: --log, --metrics and --rules stand beside one",
                           input->path);
        return error->status;
    }
    return ct_explain_print(o, q->terminal, input, error);
}

static int explain(const struct request *q, const char *path) {
    struct ct_explain_input input;
    struct ct_error error;
    int is_trace = 0, status = ct_explain_open(&input, path, &error);
    if (!status)
        is_trace = ct_explain_is_trace(&input);
    if (is_trace)
        status = ct_explain_make_seekable(&input, &error);
    else if (!status)
        status = explain_input(q, &input, &error);
    ct_explain_close(&input);
    if (status)
        return report_error(&error, q->in_list);
    return is_trace ? report(q, input.path) : status;
}

static int report_one(const struct request *q, const char *path) {
    return q->arguments->command == CT_COMMAND_explain ? explain(q, path) : report(q, path);
}

// One page of all traces that can be read.
static int report_page(struct request *q) {
    const struct ct_arguments *o = q->arguments;
    struct ct_page page;
    struct ct_error error;
    int status = CT_EXIT_OK;
    if (ct_page_begin(&page, o, &error))
        return report_error(&error, 0);
    q->page = &page;
    for (int i = 0; i < (o->path_count ? o->path_count : 1); i++) {
        const int one = report(q, o->path_count ? o->paths[i] : "-");
        status = status > one ? status : one;
    }
    if (ct_page_end(&page, &error))
        status = report_error(&error, 0);
    ct_page_free(&page);
    return status;
}

static int report_each(const struct request *q, int is_table) {
    const struct ct_arguments *o = q->arguments;
    const int several = o->path_count > 1 && o->command != CT_COMMAND_dump;
    int status = CT_EXIT_OK;
    if (q->in_list)
        putchar('[');
    if (!o->path_count)
        status = report_one(q, "-");
    for (int i = 0; i < o->path_count; i++) {
        if (q->in_list && i)
            putchar(',');
        if (!o->json && several)
            print_title(q->terminal, o->paths[i], i == 0);
        fflush(stdout);
        const int one = report_one(q, o->paths[i]);
        status = status > one ? status : one;
    }
    if (is_table)
        (void)report_processes(o, q->terminal); // of the same traces: the same status
    if (q->in_list)
        fputs("]\n", stdout);
    return status;
}

static int report_all(const struct ct_arguments *o, const struct ct_terminal *terminal) {
    const int several = o->path_count > 1 && o->command != CT_COMMAND_dump;
    const int is_table = several && o->command == CT_COMMAND_summary;
    struct ct_phase_rules rules = {.count = 0};
    struct request q = {.arguments = o, .terminal = terminal, .rules = &rules};
    struct ct_error error;
    int status = CT_EXIT_OK;
    if (o->rules && ct_phase_rules_read(&rules, o->rules, &error)) {
        ct_phase_rules_free(&rules);
        return report_error(&error, 0);
    }
    q.in_list = o->json && several && o->command != CT_COMMAND_html;
    if (is_table && !q.in_list)
        status = report_processes(o, terminal);
    else if (o->command == CT_COMMAND_html)
        status = report_page(&q);
    else
        status = report_each(&q, is_table);
    ct_phase_rules_free(&rules);
    return status;
}

static void print_help(const struct ct_arguments *o, const struct ct_terminal *terminal) {
    FILE *out = ct_terminal_open_text(terminal, stdout);
    if (o->have_command)
        ct_help_print_command(out, o->command);
    else
        ct_help_print(out);
    fclose(out);
}

// Prints what an option asks for in place of a report. Returns 0 if none does.
static int print_information(const struct ct_arguments *o, const struct ct_terminal *terminal) {
    if (o->help)
        print_help(o, terminal);
    else if (o->version)
        printf("cutrace-report %s, reads trace format up to version %d\nlines: %s\n", CT_VERSION,
               CT_FORMAT_VERSION, ct_dwarf_version());
    else if (o->licenses)
        ct_licenses_print(stdout);
    else if (o->noise)
        ct_noise_document_print(stdout);
    return o->help || o->version || o->licenses || o->noise;
}

int main(int argc, char **argv) {
    struct ct_arguments o;
    struct ct_terminal terminal;
    struct ct_error error;
    // A reader that closes the pipe ends this program silently, even if the parent process ignores
    // SIGPIPE.
    signal(SIGPIPE, SIG_DFL);
    if (ct_arguments_parse(&o, argc, argv, &error)) {
        ct_terminal_warn(error.text);
        return error.status;
    }
    int status = CT_EXIT_OK;
    ct_terminal_init(&terminal, &o);
    if (!print_information(&o, &terminal)) {
        ct_progress_init(&o);
        ct_terminal_start_pager(&terminal, &o);
        status = report_all(&o, &terminal);
    }
    if (fflush(stdout) || ferror(stdout)) {
        ct_terminal_warn("cannot write the output");
        status = CT_EXIT_OUTPUT;
    }
    ct_terminal_end();
    return status;
}
