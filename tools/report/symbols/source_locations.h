// SPDX-License-Identifier: Apache-2.0
// Adds source locations to the native frames of a trace, if the files that the process had loaded
// are on this machine.
#ifndef CT_SOURCE_LOCATIONS_H
#define CT_SOURCE_LOCATIONS_H

#include "read/definitions.h"
#include "symbols/dwarf_lines.h"

#define CT_PATH_MAX 4096
// Describes a module for a search of its debug information; `path` gets its path. 0 if the trace
// does not have enough of it.
int ct_source_locations_module(const struct ct_definitions *n, uint32_t module,
                               char path[CT_PATH_MAX], struct ct_debug_module *wanted);
// Looks up all frames that have no location yet.
void ct_source_locations_look_up(struct ct_definitions *n, const struct ct_debug_search *search);

#endif
