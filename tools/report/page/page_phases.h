// SPDX-License-Identifier: Apache-2.0
// The phases of a run as a table in HTML, whose times are links to their moments.
#ifndef CT_PAGE_PHASES_H
#define CT_PAGE_PHASES_H

#include "analyze/phase_times.h"
#include "answer/view.h"

void ct_page_phases_write(FILE *out, struct ct_view *v, const struct ct_phase_times *p);

#endif
