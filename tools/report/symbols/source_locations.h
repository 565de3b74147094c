// SPDX-License-Identifier: Apache-2.0
// Adds source locations to the native frames of a trace, if the files that the process had loaded
// are on this machine.
#ifndef CT_SOURCE_LOCATIONS_H
#define CT_SOURCE_LOCATIONS_H

#include "base/error.h"
#include "read/definitions.h"
#include "symbols/dwarf_lines.h"

// What a look-up found. The texts are its own, so that it outlives the trace.
struct ct_source_locations {
    uint64_t frames, with_lines; // that had no location before; of these, that have one now
    struct ct_module_without_lines {
        struct ct_string path;
        uint64_t frames; // without one
        const char *why; // NULL: the debug information has none for them
    } * modules;
    size_t module_count;
};

// Looks up all frames that have no location yet. -1 with a warning where a file could not be read
// to its end; `name` of the trace. `found` may be NULL.
int ct_source_locations_look_up(struct ct_definitions *n, const char *name,
                                const struct ct_debug_search *search,
                                struct ct_source_locations *found, struct ct_error *warning);
void ct_source_locations_free(struct ct_source_locations *found);

#endif
