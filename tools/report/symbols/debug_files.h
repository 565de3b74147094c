// SPDX-License-Identifier: Apache-2.0
// Finds the file with the debug information of a module: never one with another build-id.
#ifndef CT_DEBUG_FILES_H
#define CT_DEBUG_FILES_H

#include "symbols/dwarf_lines.h"
#include "symbols/libdw.h"

#ifdef CT_HAVE_LIBDW

struct ct_elf_file {
    int fd;
    Elf *elf;
};

struct ct_debug_file {
    struct ct_elf_file main, shared; // shared: what dwz moved out of several files
    Dwarf *dwarf, *shared_dwarf;
    enum ct_debug_found { // the nearest to success of all that was tried
        CT_DEBUG_NO_READER,
        CT_DEBUG_NO_ID,
        CT_DEBUG_NOT_HERE,
        CT_DEBUG_ANOTHER,
        CT_DEBUG_NONE_IN_IT,
        CT_DEBUG_FOUND,
    } found;
};

void ct_debug_file_open(struct ct_debug_file *file, const struct ct_debug_search *from,
                        const struct ct_debug_module *module);
void ct_debug_file_close(struct ct_debug_file *file);

#endif

#endif
