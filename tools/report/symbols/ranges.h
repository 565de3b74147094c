// SPDX-License-Identifier: Apache-2.0
// The range of the program (cutrace.h, NVTX) that an event lies in, of those that say what a run
// does.
#ifndef CT_RANGES_H
#define CT_RANGES_H

#include <cutrace/model/open_ranges.h>

#include "read/definitions.h"

// The name of the outermost range that the event's thread is in, after the event; without one that
// of the oldest range of the process (range-start). NULL: it is in none. `open`: before the event.
// Ranges without a name and those of range_noise.def do not count.
const struct ct_string *ct_ranges_find(const struct ct_definitions *n,
                                       const struct ct_open_ranges *open, const struct ct_event *e);

// Whether a range or a mark of this name and domain (string ids) is one that libraries make for
// each of their calls.
int ct_ranges_is_noise(const struct ct_definitions *n, uint32_t text, uint32_t domain);

// Whether a trace has such events at all, by the recorder's own count.
int ct_ranges_are_heard(const struct ct_definitions *n);

#endif
