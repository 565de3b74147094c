// SPDX-License-Identifier: Apache-2.0
// The shared objects of the process: where they lie, which files they are, and how addresses find
// them.
#ifndef CT_MODULES_H
#define CT_MODULES_H

#include <stddef.h>
#include <stdint.h>

#include "store/elf_symbols.h"

#define CT_BUILD_ID_MAX 64

struct ct_module {
    uint64_t base, start, end; // load bias; executable addresses
    const char *path;
    uint8_t build_id[CT_BUILD_ID_MAX];
    uint32_t build_id_bytes;
    uint32_t file_id, file_generation; // the drainer's, as in struct ct_stack_entry
    int no_symbols;                    // looked for in vain
    struct ct_elf_symbols *symbols;        // or NULL; set and cleared by the drainer
};

// While any thread is in there, a fork waits (a bounded time) before it copies the loader's locks. enter returns
// 0, or -EBUSY when a fork is being prepared: do it later.
int ct_loader_gate_enter(void);
void ct_loader_gate_leave(void);
int ct_loader_gate_close(void);
int ct_loader_gate_is_busy(void); // a thread is in there
void ct_loader_gate_open(void);

// Looks at the loader's list of objects; takes the loader's lock. Not under the drain lock. Returns
// 1 if it has changed since the last merge, 0 if not, negative if it could not be read.
int ct_loaded_modules_scan(void);

// Has `forget` called when an object was unloaded: what is known of its addresses is void. By the thread that looks.
void ct_loaded_modules_on_unload(void (*forget)(void));

// Takes over what the last look found. Drainer only. Returns 1 if an address that belonged to one
// object now belongs to another, so that what is known of addresses is void.
int ct_loaded_modules_merge(void);

// The module of an address, or NULL. Drainer only; a module stays where it is for ever.
struct ct_module *ct_loaded_modules_find(uint64_t address);

// The module that was found as number n, or NULL behind the last.
struct ct_module *ct_loaded_modules_get(size_t n);

// A forked child: what was being changed may be half done.
void ct_loaded_modules_reinit_child(void);

#endif
