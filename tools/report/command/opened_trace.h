// SPDX-License-Identifier: Apache-2.0
// A trace that is open, with a view of it.
#ifndef CT_COMMAND_OPENED_TRACE_H
#define CT_COMMAND_OPENED_TRACE_H

#include "answer/view.h"

// The options are its own: of two traces that are compared, each has its own moment. Must not be
// moved: the view refers to the rest.
struct ct_opened_trace {
    struct ct_arguments options;
    struct ct_trace trace;
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_view view; // its output is stdout
};

// Returns 0, or an exit code with *error set. In both cases ct_opened_trace_close follows.
int ct_opened_trace_open(struct ct_opened_trace *to, const struct ct_arguments *o,
                         const struct ct_terminal *terminal, const char *path,
                         struct ct_error *error);
// The same by the prefixes and digests of its chunks alone (read/trace_part.h).
int ct_opened_trace_open_headers(struct ct_opened_trace *to, const struct ct_arguments *o,
                                 const struct ct_terminal *terminal, const char *path,
                                 struct ct_error *error);
// Opens a second view of an open trace.
void ct_opened_trace_share(struct ct_opened_trace *to, const struct ct_opened_trace *of);

// Looks up names: call sites and phases. Only of one that could be opened.
void ct_opened_trace_begin(struct ct_opened_trace *s, const struct ct_phase_rules *rules);
void ct_opened_trace_end(struct ct_opened_trace *s);

void ct_opened_trace_close(struct ct_opened_trace *s);

// Whether an exit code has to say that something is missing.
int ct_opened_trace_is_incomplete(const struct ct_opened_trace *s);

// What restricts all that is said of a trace: damage, missing chunks, a missing end.

// Warns in one line if the trace is damaged or incomplete, unless the view's first line says it.
void ct_restrictions_warn(const struct ct_view *v);

// Every view begins with what restricts all that it says: the end of the trace is missing, its
// figures are estimates. The JSON of dump has events only, so there the warning goes to stderr.
void ct_restrictions_print(struct ct_view *v);

#endif
