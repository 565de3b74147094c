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
#include "bundle/bundle.h"
#include "page/page.h"
#include "symbols/noise_document.h"
#include "symbols/source_locations.h"
#include "views/check_quick.h"
#include "views/companions.h"
#include "views/document.h"
#include "views/explain.h"
#include "views/gate.h"
#include "views/help.h"
#include "views/processes.h"
#include "views/progress.h"
#include "views/time_range.h"
#include "views/trace_state.h"
#include "views/view_scan.h"

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
    return command != CT_COMMAND_seal && command != CT_COMMAND_symbolize &&
           command != CT_COMMAND_trim && command != CT_COMMAND_scrub;
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
        ct_trace_state_print_trimmed(v);
        ct_trace_state_print_estimate(v);
    } else if (v->options->command == CT_COMMAND_dump &&
               ct_trace_state_estimate(v->trace, text, sizeof text))
        ct_terminal_warn(text);
}

static int shows_frames(enum ct_command command) {
    return command != CT_COMMAND_timeline && command != CT_COMMAND_stats &&
           command != CT_COMMAND_info && command != CT_COMMAND_coverage &&
           command != CT_COMMAND_check && is_about_trace(command);
}

// Whether late durations and stacks of frees matter: to lists of events, and to copies.
static int needs_details(enum ct_command command) {
    return command == CT_COMMAND_dump || command == CT_COMMAND_stats ||
           command == CT_COMMAND_export || command == CT_COMMAND_trim ||
           command == CT_COMMAND_scrub;
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
    ct_companions_choose_lines(&companions, v->trace);
    v->companions = &companions;
    const int status = show(v, in_list);
    v->companions = NULL;
    ct_companions_free(&companions);
    return status;
}

// Where a report is one of several: `in_list` of JSON, and of the traces that are looked at
// together (NULL: each for itself) the position of this one.
struct place {
    int in_list;
    const struct ct_processes *processes;
    size_t process;
    struct ct_page *page; // of the command html
};

// Judges the conditions of --fail-on, behind the report.
static int judge(struct ct_view *v, struct ct_view *before) {
    fflush(stdout);
    return ct_gate_judge(v, before);
}

static int report(const struct ct_arguments *o, const struct ct_terminal *terminal,
                  const struct ct_phase_rules *rules, const char *path, const struct place *place) {
    struct ct_trace trace = {.details = needs_details(o->command),
                             .no_journal = o->no_journal,
                             .sealing = o->force && o->command == CT_COMMAND_seal,
                             .progress = ct_progress_report};
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_error error;
    int status;
    if (o->quick)
        return ct_check_quick(o, stdout, path);
    if (ct_trace_open(&trace, path, &error)) {
        status = report_error(&error, place->in_list);
    } else {
        struct ct_view v = {.options = o,
                            .terminal = terminal,
                            .trace = &trace,
                            .sites = &sites,
                            .phases = &phases,
                            .processes = place->processes,
                            .process = place->process,
                            .page = place->page};
        v.out = o->json ? stdout : ct_terminal_open_text(terminal, stdout);
        if (shows_frames(o->command))
            ct_source_locations_look_up(&trace.definitions, &o->lines);
        ct_call_sites_init(&sites, &trace.definitions);
        ct_phases_init(&phases, &trace.definitions, rules);
        sites.all_frames = o->all_frames;
        if (o->have_demangling)
            sites.in_text = sites.in_json = o->demangling;
        status = show_with_companions(&v, place->in_list);
        if (v.out != stdout)
            fclose(v.out);
        if (o->fail_on.count)
            status = ct_gate_worse(status, judge(&v, NULL));
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

// ---- a trace beside another one -----------------------------------------------------------------

// A trace with a view of it. The options are its own: the moment of A is not that of B.
struct side {
    struct ct_arguments options;
    struct ct_trace trace;
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_view view;
};

static int open_side(struct side *s, const struct ct_arguments *o,
                     const struct ct_terminal *terminal, const char *path, struct ct_error *error) {
    *s = (struct side){
        .options = *o,
        .trace = {.no_journal = o->no_journal, .progress = ct_progress_report},
        .view = {.options = &s->options, .terminal = terminal, .trace = &s->trace, .out = stdout}};
    return ct_trace_open(&s->trace, path, error);
}

// Of an open trace, which may be that of the other side.
static void init_side(struct side *s, const struct ct_phase_rules *rules) {
    struct ct_definitions *of = &s->view.trace->definitions;
    if (s->view.trace == &s->trace)
        ct_source_locations_look_up(of, &s->options.lines);
    ct_call_sites_init(&s->sites, of);
    ct_phases_init(&s->phases, of, rules);
    s->sites.all_frames = s->options.all_frames;
    if (s->options.have_demangling)
        s->sites.in_text = s->sites.in_json = s->options.demangling;
    s->view.sites = &s->sites;
    s->view.phases = &s->phases;
}

static void free_side(struct side *s) {
    ct_phases_free(&s->phases);
    ct_call_sites_free(&s->sites);
}

// Opens both; one trace is opened once.
static int open_diff(struct side *a, struct side *b, const struct ct_arguments *o,
                     const struct ct_terminal *terminal, struct ct_error *error) {
    const int is_one = o->path_count == 1;
    const int failed_a = open_side(a, o, terminal, o->paths[0], error);
    a->options.at = o->at_before;
    a->options.at_end = o->at_end_before;
    if (failed_a)
        ct_terminal_warn(error->text);
    if (!is_one && open_side(b, o, terminal, o->paths[1], error)) {
        ct_terminal_warn(error->text);
        return -1;
    }
    if (is_one) {
        *b = (struct side){.options = *o, .view = a->view};
        b->view.options = &b->options;
    }
    return failed_a;
}

static int is_incomplete(const struct ct_view *v) {
    return v->trace->incomplete || (v->options->strict && !ct_trace_is_intact(v->trace));
}

static int show_diff(struct side *a, struct side *b, int is_one) {
    struct ct_error error;
    if (ct_time_range_resolve(&a->view, &error) || ct_time_range_resolve(&b->view, &error))
        return report_error(&error, 0);
    warn_incomplete(&a->view);
    if (!is_one)
        warn_incomplete(&b->view);
    a->view.out = b->view.out =
        b->options.json ? stdout : ct_terminal_open_text(b->view.terminal, stdout);
    b->view.before = &a->view;
    print_restrictions(&a->view);
    if (!is_one)
        print_restrictions(&b->view);
    int status = ct_view_diff(&b->view);
    if (b->view.out != stdout)
        fclose(b->view.out);
    if (is_incomplete(&a->view) || is_incomplete(&b->view))
        status = CT_EXIT_INCOMPLETE;
    if (b->options.fail_on.count)
        status = ct_gate_worse(status, judge(&b->view, &a->view));
    return status;
}

static int report_diff(const struct ct_arguments *o, const struct ct_terminal *terminal,
                       const struct ct_phase_rules *rules) {
    const int is_one = o->path_count == 1;
    struct side a, b = {.options = *o};
    struct ct_error error;
    int status = CT_EXIT_BAD_TRACE;
    if (open_diff(&a, &b, o, terminal, &error) == 0) {
        init_side(&a, rules);
        init_side(&b, rules);
        status = show_diff(&a, &b, is_one);
        free_side(&a);
        free_side(&b);
    }
    ct_progress_clear();
    ct_trace_close(&a.trace);
    if (!is_one)
        ct_trace_close(&b.trace);
    return status;
}

static void print_title(const struct ct_terminal *terminal, const char *path, int is_first) {
    fputs(is_first ? "" : "\n", stdout);
    printf("%s== ", terminal->bold);
    ct_utf8_print_sanitized(stdout, path, strlen(path));
    printf(" ==%s\n", terminal->reset);
}

// Whether the command looks at several traces together.
static int is_of_processes(const struct ct_arguments *o) {
    if (o->path_count < 2 || (o->command != CT_COMMAND_summary && o->command != CT_COMMAND_explain))
        return 0;
    for (int i = 0; i < o->path_count && o->command == CT_COMMAND_explain; i++)
        if (!ct_explain_is_trace_file(o->paths[i]))
            return 0;
    return 1;
}

// Judges one of several traces that were reported together. One that cannot be read was reported.
static int judge_path(const struct ct_arguments *o, const struct ct_terminal *terminal,
                      const struct ct_phase_rules *rules, const char *path) {
    struct side side;
    struct ct_error error;
    int status = CT_EXIT_OK;
    if (open_side(&side, o, terminal, path, &error) == 0) {
        init_side(&side, rules);
        (void)ct_time_range_resolve(&side.view, &error); // (no range with several traces)
        status = judge(&side.view, NULL);
        free_side(&side);
    }
    ct_progress_clear();
    ct_trace_close(&side.trace);
    return status;
}

// The summary of several traces is one table, and their verdicts are one list.
static int report_processes(const struct ct_arguments *o, const struct ct_terminal *terminal,
                            const struct ct_phase_rules *rules) {
    struct ct_processes_shown s;
    struct ct_error error;
    if (ct_processes_check_options(o, &error) ||
        ct_processes_read(&s, o, terminal, rules, warn_incomplete, &error))
        return report_error(&error, 0);
    int status = ct_processes_print(&s);
    ct_processes_close(&s);
    for (int i = 0; i < o->path_count && o->fail_on.count; i++)
        status = ct_gate_worse(status, judge_path(o, terminal, rules, o->paths[i]));
    return status;
}

// A text has no trace, and neither has a snapshot.
static int explain_input(const struct ct_arguments *o, const struct ct_terminal *terminal,
                         struct ct_explain_input *input, struct ct_error *error) {
    if (o->log || o->metrics || o->rules || ct_view_scan_is_moment_asked(o)) {
        (void)ct_error_set(error, CT_EXIT_USAGE,
                           "%.400s is no trace: --log, --metrics, --rules and --at need one",
                           input->path);
        return error->status;
    }
    return ct_explain_print(o, terminal, input, error);
}

static int explain(const struct ct_arguments *o, const struct ct_terminal *terminal,
                   const struct ct_phase_rules *rules, const char *path,
                   const struct place *place) {
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
        return report_error(&error, place->in_list);
    return is_trace ? report(o, terminal, rules, input.path, place) : status;
}

static int report_one(const struct ct_arguments *o, const struct ct_terminal *terminal,
                      const struct ct_phase_rules *rules, const char *path,
                      const struct place *place) {
    return o->command == CT_COMMAND_explain ? explain(o, terminal, rules, path, place)
                                            : report(o, terminal, rules, path, place);
}

// One report after the other; in JSON an element of a list for each, and one of `together`.
static int report_each(const struct ct_arguments *o, const struct ct_terminal *terminal,
                       const struct ct_phase_rules *rules, struct ct_processes_shown *together) {
    const int several = o->path_count > 1 && o->command != CT_COMMAND_dump;
    struct place place = {.in_list = o->json && several,
                          .processes = together ? &together->all : NULL};
    int status = CT_EXIT_OK;
    if (place.in_list)
        putchar('[');
    if (!o->path_count)
        status = report_one(o, terminal, rules, "-", &place);
    for (int i = 0; i < o->path_count; i++) {
        if (place.in_list && i)
            putchar(',');
        if (!o->json && several)
            print_title(terminal, o->paths[i], i == 0);
        fflush(stdout);
        place.process = (size_t)i;
        const int one = report_one(o, terminal, rules, o->paths[i], &place);
        status = ct_gate_worse(status, one);
    }
    if (together) {
        putchar(',');
        (void)ct_processes_print(together); // of the same traces: the same status
    }
    if (place.in_list)
        fputs("]\n", stdout);
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
        return report_error(&error, 0);
    const int status = report_each(o, terminal, rules, &together);
    ct_processes_close(&together);
    return status;
}

// One page of all traces that can be read.
static int report_page(const struct ct_arguments *o, const struct ct_terminal *terminal,
                       const struct ct_phase_rules *rules) {
    struct ct_page page;
    struct place place = {.page = &page};
    struct ct_error error;
    int status = CT_EXIT_OK;
    if (ct_page_begin(&page, o, rules, &error))
        return report_error(&error, 0);
    place.processes = page.has_processes ? &page.processes.all : NULL;
    for (int i = 0; i < (o->path_count ? o->path_count : 1); i++) {
        place.process = (size_t)i;
        const int one = report(o, terminal, rules, o->path_count ? o->paths[i] : "-", &place);
        status = ct_gate_worse(status, one);
    }
    if (ct_page_end(&page, &error))
        status = report_error(&error, 0);
    ct_page_free(&page);
    return status;
}

static int report_all(const struct ct_arguments *o, const struct ct_terminal *terminal) {
    struct ct_phase_rules rules = {.count = 0};
    struct ct_error error;
    int status = CT_EXIT_OK;
    if (o->rules && ct_phase_rules_read(&rules, o->rules, &error)) {
        ct_phase_rules_free(&rules);
        return report_error(&error, 0);
    }
    if (o->command == CT_COMMAND_diff)
        status = report_diff(o, terminal, &rules);
    else if (o->command == CT_COMMAND_bundle || o->command == CT_COMMAND_merge)
        status = ct_bundle_write(o, &rules);
    else if (o->command == CT_COMMAND_html)
        status = report_page(o, terminal, &rules);
    else if (!is_of_processes(o))
        status = report_each(o, terminal, &rules, NULL);
    else if (o->json)
        status = report_list(o, terminal, &rules);
    else
        status = report_processes(o, terminal, &rules);
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

// The traces that the command line names, also those in zip files.
static int report_paths(struct ct_arguments *o, struct ct_terminal *terminal) {
    struct ct_bundle_paths paths;
    struct ct_error error;
    int status;
    if (ct_bundle_expand(&paths, o, &error)) {
        ct_terminal_warn(error.text);
        status = error.status;
    } else {
        ct_progress_init(o);
        ct_terminal_start_pager(terminal, o);
        status = report_all(o, terminal);
    }
    ct_bundle_paths_free(&paths);
    return status;
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
    if (!print_information(&o, &terminal))
        status = report_paths(&o, &terminal);
    if (fflush(stdout) || ferror(stdout)) {
        ct_terminal_warn("cannot write the output");
        status = CT_EXIT_OUTPUT;
    }
    ct_terminal_end();
    return status;
}
