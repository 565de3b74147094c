// SPDX-License-Identifier: Apache-2.0
// Source lines and inlined functions of addresses in ELF files, from their debug information (elfutils' libdw, if there is one).
#ifndef CT_LINES_H
#define CT_LINES_H

#include <stddef.h>
#include <stdint.h>

struct ct_source_place {
    const char
        *function;    // as the symbol table would have it, or with its namespaces; NULL: unknown
    const char *file; // NULL: unknown
    uint64_t line;    // 0: unknown
};

// Where files are looked for. A file counts only if its build-id is the one that was asked for.
struct ct_lines_from {
    const char *sysroot;   // before every path; NULL: none
    const char *debug_dir; // of separate debug files; NULL: /usr/lib/debug
    int debuginfod;        // what is not found is asked of the servers of DEBUGINFOD_URLS
};

struct ct_lines;

// NULL if lines can be had; else why not.
const char *ct_lines_missing(void);
// What reads debug information here, in one line for people.
const char *ct_lines_version(void);

struct ct_lines *ct_lines_open(const struct ct_lines_from *from);
void ct_lines_close(struct ct_lines *lines);

struct ct_lines_module {
    const char *path; // as recorded
    const uint8_t *build_id;
    size_t build_id_bytes;
};
// The debug information of a module, looked for at the first call; never NULL, valid until close.
struct ct_lines_file;
struct ct_lines_file *ct_lines_file(struct ct_lines *lines, const struct ct_lines_module *module);
// Why there is none, or NULL.
const char *ct_lines_why(const struct ct_lines_file *file);
// Places of the instruction at an address of the file (the scale of its symbols), innermost first: all but the last one
// are functions inlined there. 0: not known. They stay valid until close.
size_t ct_lines_find(struct ct_lines *lines, struct ct_lines_file *file, uint64_t address,
                     const struct ct_source_place **places);

#endif
