// SPDX-License-Identifier: Apache-2.0
// What restricts all that is said of a trace: damage, missing chunks, a missing end.
#ifndef CT_COMMAND_RESTRICTIONS_H
#define CT_COMMAND_RESTRICTIONS_H

#include "answer/view.h"

// Warns in one line if the trace is damaged or incomplete, unless the view's first line says it.
void ct_restrictions_warn(const struct ct_view *v);

// Every view begins with what restricts all that it says: the end of the trace is missing, its
// figures are estimates. The JSON of dump has events only, so there the warning goes to stderr.
void ct_restrictions_print(struct ct_view *v);

#endif
