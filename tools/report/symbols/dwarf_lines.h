// SPDX-License-Identifier: Apache-2.0
// Source lines and inlined functions of addresses in ELF files, from their debug information (elfutils' libdw, if there is one).
#ifndef CT_LINES_H
#define CT_LINES_H

#include <stddef.h>
#include <stdint.h>

struct ct_dwarf_location {
    const char
        *function;    // as the symbol table would have it, or with its namespaces; NULL: unknown
    const char *file; // NULL: unknown
    uint64_t line;    // 0: unknown
};

// Where files are looked for. A file counts only if its build-id is the one that was asked for.
struct ct_debug_search {
    const char *sysroot;   // before every path; NULL: none
    const char *debug_dir; // of separate debug files; NULL: /usr/lib/debug
    int debuginfod;        // what is not found is asked of the servers of DEBUGINFOD_URLS
};

struct ct_dwarf;

// NULL if lines can be had; else why not.
const char *ct_dwarf_missing(void);
// What reads debug information here, in one line for people.
const char *ct_dwarf_version(void);

struct ct_dwarf *ct_dwarf_open(const struct ct_debug_search *from);
void ct_dwarf_close(struct ct_dwarf *lines);

struct ct_debug_module {
    const char *path; // as recorded
    const uint8_t *build_id;
    size_t build_id_bytes;
};
// The debug information of a module, looked for at the first call; never NULL, valid until close.
struct ct_dwarf_file;
struct ct_dwarf_file *ct_dwarf_file(struct ct_dwarf *lines, const struct ct_debug_module *module);
// Why there is none, or NULL.
const char *ct_dwarf_why_none(const struct ct_dwarf_file *file);
// Places of the instruction at an address of the file (the scale of its symbols), innermost first: all but the last one
// are functions inlined there. 0: not known. They stay valid until close.
size_t ct_dwarf_find_locations(struct ct_dwarf *lines, struct ct_dwarf_file *file, uint64_t address,
                     const struct ct_dwarf_location **places);

#endif
