// SPDX-License-Identifier: Apache-2.0
// Source lines and inlined functions of addresses in ELF files, from their debug information.
// Built without libdw, there are none. Files are not trusted, but libdw may trust them: only
// source_locations.c calls this, in a process of its own.
#ifndef CT_DWARF_LINES_H
#define CT_DWARF_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "symbols/debug_files.h"

struct ct_dwarf_location {
    const char *function; // mangled, or with its namespaces; NULL: unknown
    const char *file;     // NULL: unknown
    uint64_t line;        // 0: unknown
};

// What reads debug information here, in one line for people.
const char *ct_dwarf_version(void);

#ifdef CT_HAVE_LIBDW
struct ct_dwarf;

// Of the process that reads lines (source_locations.c): it is never closed.
struct ct_dwarf *ct_dwarf_open(const struct ct_debug_search *search);

// The debug information of a module, searched for at the first call. Never NULL.
struct ct_dwarf_file;
struct ct_dwarf_file *ct_dwarf_file(struct ct_dwarf *dwarf, const struct ct_debug_module *module);
enum ct_debug_found ct_dwarf_found(const struct ct_dwarf_file *file);
// The locations of the instruction at an address of the file (on the scale of its symbols),
// innermost first: all but the last one are inlined functions. Returns their number, 0: unknown.
// They are valid until the next call.
size_t ct_dwarf_find_locations(struct ct_dwarf *dwarf, struct ct_dwarf_file *file, uint64_t address,
                               const struct ct_dwarf_location **locations);
#endif

#endif
