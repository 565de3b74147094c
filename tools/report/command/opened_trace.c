// SPDX-License-Identifier: Apache-2.0
#include "command/opened_trace.h"

#include "cli/argument_table.h"
#include "cli/progress.h"
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
