// SPDX-License-Identifier: Apache-2.0
// Gives native frames of a trace their places in the source, as far as the files that it was recorded with are here.
#ifndef CT_PLACES_H
#define CT_PLACES_H

#include "read/definitions.h"
#include "symbols/dwarf_lines.h"

// What debug information of a module is looked for by; `path` gets its path. 0 if the trace does not tell enough.
#define CT_PATH_MAX 4096
int ct_source_locations_module(const struct ct_definitions *n, uint32_t module, char path[CT_PATH_MAX],
                     struct ct_debug_module *wanted);
// All frames that have none yet.
void ct_source_locations_look_up(struct ct_definitions *n, const struct ct_debug_search *from);

#endif
