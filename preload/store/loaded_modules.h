// SPDX-License-Identifier: Apache-2.0
// The table of modules (executable and shared objects) that the process has loaded, and the look-up
// of an address in it. One thread scans the loader's list, without the drain lock; the drainer
// merges what the scan found.
#ifndef CT_STORE_LOADED_MODULES_H
#define CT_STORE_LOADED_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "store/elf_symbols.h"

#define CT_BUILD_ID_MAX 64

// Once merged, a module stays in its place until the process ends.
struct ct_loaded_module {
    uint64_t base;       // load bias
    uint64_t start, end; // executable addresses
    const char *path;
    uint8_t build_id[CT_BUILD_ID_MAX];
    uint32_t build_id_bytes;
    uint32_t file_id, file_generation; // the drainer's, as in struct ct_stack_entry
    int no_symbols;                    // the file has none, or cannot be read
    struct ct_elf_symbols *symbols;    // the drainer's; NULL while not loaded
};

// Counts how many objects the loader has ever loaded: unchanged if no object was loaded since.
// Inside the loader gate.
uint64_t ct_loaded_modules_count_loads(void);

// Reads the loader's list of objects under the loader's lock; the caller must not hold the drain
// lock. Returns 1 if the list differs from the last merge, 0 if not, -errno if it could not be
// read.
int ct_loaded_modules_scan(void);

// Registers a function that a scan calls when objects were unloaded, because cached addresses are
// invalid then.
void ct_loaded_modules_on_unload(void (*forget)(void));

// Merges the modules that the last scan found. Drain lock held. Returns 1 if addresses of one
// module now belong to another, so that cached addresses are invalid.
int ct_loaded_modules_merge(void);

// Finds the module of an address. NULL if there is none. Drain lock held.
struct ct_loaded_module *ct_loaded_modules_find(uint64_t address);

// Module n in the order of finding; NULL after the last one. Drain lock held.
struct ct_loaded_module *ct_loaded_modules_get(size_t n);

// In a forked child: empties the table, which another thread may have been changing, and opens the
// loader gate.
void ct_loaded_modules_reinit_child(void);

#endif
