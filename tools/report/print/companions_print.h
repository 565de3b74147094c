// SPDX-License-Identifier: Apache-2.0
// What a server's log and its metrics add to a view (--log): facts, no conclusion.
#ifndef CT_COMPANIONS_PRINT_H
#define CT_COMPANIONS_PRINT_H

#include "analyze/incidents.h"
#include "answer/companions.h"
#include "base/json.h"

// Prints a section for each. `incidents`: NULL if the view has none; then which one the log is
// about is not shown.
void ct_companions_print(struct ct_view *v, const struct ct_incidents *incidents);
// Adds `companions`: null without any of the options.
void ct_companions_add_json(struct ct_json *j, const struct ct_view *v,
                            const struct ct_incidents *incidents);

#endif
