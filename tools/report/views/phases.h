// SPDX-License-Identifier: Apache-2.0
// The view phases in steps, for callers that share its pass or print it as text and JSON.
#ifndef CT_VIEW_PHASES_H
#define CT_VIEW_PHASES_H

#include "analyze/phase_times.h"
#include "answer/view.h"

struct ct_phase_times_request ct_phases_request(const struct ct_view *v);
// Prints text or JSON, as the options of this view say.
void ct_phases_print(const struct ct_phase_times *p, struct ct_view *v);

#endif
