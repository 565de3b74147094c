// SPDX-License-Identifier: Apache-2.0
// Adds source locations to the native frames of a trace, if the files that the process had loaded
// are on this machine.
#ifndef CT_SOURCE_LOCATIONS_H
#define CT_SOURCE_LOCATIONS_H

#include "base/error.h"
#include "symbols/line_reader.h"

// Looks up all frames that have no location yet. -1 with a warning where a file could not be read
// to its end; `name` of the trace.
int ct_source_locations_look_up(struct ct_definitions *n, const char *name,
                                const struct ct_debug_search *search, struct ct_error *warning);

#endif
