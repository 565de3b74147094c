// SPDX-License-Identifier: Apache-2.0
// What a server's log says, as text and in JSON.
#ifndef CT_LOG_PRINT_H
#define CT_LOG_PRINT_H

#include "answer/view.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "text/facts.h"

// Prints the figures of the start, the settings, the step that failed and the load, one line for
// each that the log has. Returns how many lines that were.
unsigned ct_log_print(struct ct_view *v, const struct ct_text_facts *f);

// Adds an object, or null if `f` is NULL.
void ct_log_add_json(struct ct_json *j, const char *key, const struct ct_text_facts *f,
                     const struct ct_arguments *o);

#endif
