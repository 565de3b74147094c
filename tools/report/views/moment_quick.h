// SPDX-License-Identifier: Apache-2.0
// top --quick and frag --quick: what is live at a moment, from the recorder's nearest checkpoint.
// Peaks, totals and growth, which need all events, are not shown.
#ifndef CT_MOMENT_QUICK_H
#define CT_MOMENT_QUICK_H

#include "analyze/moment_part.h"
#include "print/view.h"

// Reads the part of the trace that the moment needs. 0, or -1 with the error set: the trace does
// not have it. In both cases ct_moment_part_free follows.
int ct_moment_quick_read(struct ct_moment_part *p, struct ct_view *v, struct ct_error *error);
// Prints text or JSON. Returns the exit status.
int ct_moment_quick_print(struct ct_moment_part *p, struct ct_view *v);

// Whether something of a device is live or asleep then, or one of PyTorch's pools is known.
int ct_moment_quick_has(const struct ct_moment_part *p, int device);
// What is live then, with groups whose labels suit it. To be freed by the caller.
struct ct_site_groups;
void ct_moment_quick_sum(const struct ct_moment_part *p, struct ct_view *v, int device,
                         struct ct_live_totals *live, struct ct_site_groups *groups);

#endif
