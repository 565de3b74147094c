// SPDX-License-Identifier: Apache-2.0
// Looks up the source lines of a trace's native frames in a process of its own. Which files are
// read is up to the trace, and what libdw makes of a forged one may be its end: then the lines of
// that module are lost, and nothing else.
#ifndef CT_LINE_READER_H
#define CT_LINE_READER_H

#include "read/definitions.h"
#include "symbols/dwarf_lines.h"

struct ct_lines;

// Reads the lines of all frames that have none yet. `names` must last.
struct ct_lines *ct_lines_read(const struct ct_definitions *names,
                               const struct ct_debug_search *search);
// The locations of the code before a return address (the call), innermost first. Returns their
// number; they are valid until the next call, and their texts until ct_lines_free.
size_t ct_lines_find(struct ct_lines *l, uint32_t module, uint64_t offset,
                     const struct ct_dwarf_location **locations);
// Whether a module has frames that lack lines, and a path to look for them.
int ct_lines_asks(const struct ct_lines *l, uint32_t module);
// Why such a module has no lines, or NULL.
const char *ct_lines_why_none(const struct ct_lines *l, uint32_t module);
// The modules whose debug information ended its reader, and the first of them.
size_t ct_lines_count_ended(const struct ct_lines *l, uint32_t *first);
void ct_lines_free(struct ct_lines *l);

#endif
