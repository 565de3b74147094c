// SPDX-License-Identifier: Apache-2.0
#include "command/opened_trace.h"

#include <inttypes.h>
#include <string.h>

#include "cli/argument_table.h"
#include "cli/progress.h"
#include "print/trace_state.h"
#include "read/trace_part.h"
#include "symbols/source_locations.h"

int ct_opened_trace_open(struct ct_opened_trace *to, const struct ct_arguments *o,
                         const struct ct_terminal *terminal, const char *path,
                         struct ct_error *error) {
    *to = (struct ct_opened_trace){
        .options = *o,
        .trace = {.details = ct_command_needs_details(o->command) && !o->seal,
                  .no_journal = o->no_journal,
                  .sealing = o->force && o->seal,
                  .progress = ct_progress_report},
        .view = {
            .options = &to->options, .terminal = terminal, .trace = &to->trace, .out = stdout}};
    return ct_trace_open(&to->trace, path, error);
}

int ct_opened_trace_open_headers(struct ct_opened_trace *to, const struct ct_arguments *o,
                                 const struct ct_terminal *terminal, const char *path,
                                 struct ct_error *error) {
    *to = (struct ct_opened_trace){
        .options = *o,
        .view = {
            .options = &to->options, .terminal = terminal, .trace = &to->trace, .out = stdout}};
    return ct_trace_headers_open(&to->trace, path, error);
}

void ct_opened_trace_share(struct ct_opened_trace *to, const struct ct_opened_trace *of) {
    *to = (struct ct_opened_trace){.options = of->options, .view = of->view};
    to->view.options = &to->options;
}

void ct_opened_trace_begin(struct ct_opened_trace *s, const struct ct_phase_rules *rules) {
    struct ct_definitions *const of = &s->view.trace->definitions;
    struct ct_error warning;
    if (s->view.trace == &s->trace && ct_command_shows_frames(s->options.command) &&
        ct_source_locations_look_up(of, s->trace.source.name, &s->options.lines, NULL, &warning))
        ct_terminal_warn(warning.text);
    ct_call_sites_init(&s->sites, of);
    ct_phases_init(&s->phases, of, rules);
    s->sites.all_frames = s->options.all_frames;
    if (s->options.have_demangling)
        s->sites.in_text = s->sites.in_json = s->options.demangling;
    s->view.sites = &s->sites;
    s->view.phases = &s->phases;
}

void ct_opened_trace_end(struct ct_opened_trace *s) {
    ct_phases_free(&s->phases);
    ct_call_sites_free(&s->sites);
}

void ct_opened_trace_close(struct ct_opened_trace *s) {
    ct_progress_clear();
    if (s->view.trace == &s->trace)
        ct_trace_close(&s->trace);
}

int ct_opened_trace_is_incomplete(const struct ct_opened_trace *s) {
    const struct ct_trace *t = s->view.trace;
    return t->incomplete || (s->options.strict && !ct_trace_is_intact(t));
}

// ---- what restricts all that is said ------------------------------------------------------------

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

void ct_restrictions_warn(const struct ct_view *v) {
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
                     "warning: %s: %" PRIu64 " chunk%s missing; the rest is reported",
                     t->source.name, x->missing, x->missing == 1 ? " is" : "s are");
        ct_terminal_warn(e.text);
    } else if ((t->journal_found < 0 || v->options->json ||
                !ct_command_is_about_trace(v->options->command)) &&
               check_end(t, &e)) {
        ct_terminal_warn(e.text);
    }
}

void ct_restrictions_print(struct ct_view *v) {
    char text[400];
    if (!ct_command_is_about_trace(v->options->command))
        return;
    if (!v->options->json) {
        ct_trace_state_print_incomplete(v);
        ct_trace_state_print_gap(v);
        ct_trace_state_print_trimmed(v);
        ct_trace_state_print_estimate(v);
    } else if (v->options->command == CT_COMMAND_dump &&
               ct_trace_state_estimate(v->trace, text, sizeof text))
        ct_terminal_warn(text);
}
