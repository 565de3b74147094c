// SPDX-License-Identifier: Apache-2.0
// Finds the file with the debug information of a module. A file with another build-id never counts.
#ifndef CT_DEBUG_FILES_H
#define CT_DEBUG_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "symbols/libdw.h"

// Where files are searched for.
struct ct_debug_search {
    const char *sysroot;   // put before every path; NULL: nothing
    const char *debug_dir; // of separate debug files; NULL: /usr/lib/debug
    int debuginfod;        // ask the servers of DEBUGINFOD_URLS for files that are not found
};

struct ct_debug_module {
    const char *path; // as recorded
    const uint8_t *build_id;
    size_t build_id_bytes;
};

// How far a search came; higher is nearer to success.
enum ct_debug_found {
    CT_DEBUG_NOT_ASKED,
    CT_DEBUG_NO_READER,  // libdw is missing
    CT_DEBUG_NO_ID,      // the trace has no build-id
    CT_DEBUG_NOT_HERE,   // no file was found
    CT_DEBUG_ANOTHER,    // the file has another build-id
    CT_DEBUG_NONE_IN_IT, // the file has no debug information
    CT_DEBUG_FOUND,
    CT_DEBUG_ENDED, // its debug information ended the process that read it
};

#ifdef CT_HAVE_LIBDW

struct ct_elf_file {
    int fd;
    Elf *elf;
};

struct ct_debug_file {
    struct ct_elf_file main, shared; // shared: what dwz moved out of several files
    Dwarf *dwarf, *shared_dwarf;
    enum ct_debug_found found;
};

void ct_debug_file_open(struct ct_debug_file *file, const struct ct_debug_search *search,
                        const struct ct_debug_module *module);

#endif

#endif
