// SPDX-License-Identifier: Apache-2.0
#include "command/restrictions.h"

#include <inttypes.h>
#include <string.h>

#include "cli/argument_table.h"
#include "print/trace_state.h"

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
