// SPDX-License-Identifier: Apache-2.0
// What a server's log and its metrics add to a view (--log): facts, no conclusion.
#ifndef CT_COMPANIONS_PRINT_H
#define CT_COMPANIONS_PRINT_H

#include "analyze/incidents.h"
#include "answer/companions.h"
#include "answer/view.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "text/facts.h"

// Prints a section for each. `incidents`: NULL if the view has none; then which one the log is
// about is not shown.
void ct_companions_print(struct ct_view *v, const struct ct_incidents *incidents);
// Adds `companions`: null without any of the options.
void ct_companions_add_json(struct ct_json *j, const struct ct_view *v,
                            const struct ct_incidents *incidents);
// Prints what a log says, of a trace or alone: the figures of the start, the settings, the step
// that failed and the load, one line for each that the log has. Returns how many lines that were.
unsigned ct_log_print(struct ct_view *v, const struct ct_text_facts *f);
// Adds an object, or null if `f` is NULL.
void ct_log_add_json(struct ct_json *j, const struct ct_text_facts *f,
                     const struct ct_arguments *o);

#endif
