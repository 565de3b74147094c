// SPDX-License-Identifier: Apache-2.0
// The dictionaries of the trace: ids for names, threads, modules, frames and stacks, in place of
// the process's own numbers, and their definitions. Drain lock held.
//
// A generation of dictionaries begins at each restart point, and where the tables are nearly full:
// ids count from 1 again, and each definition is written again at its next use.
#ifndef CT_WRITE_DICTIONARY_H
#define CT_WRITE_DICTIONARY_H

#include <cutrace/format/format.h>

#include "store/loaded_modules.h"

// Begins a generation; the caller has it begin with a chunk.
void ct_dictionary_begin_generation(void);

// Whether the next chunk must begin a generation: one was requested, or the tables are nearly full.
int ct_dictionary_wants_generation(void);
void ct_dictionary_request_generation(void);

// Replaces the process's numbers in an event by ids in the trace, and puts missing definitions into
// the open chunk. A field for which there is no room becomes absent.
void ct_dictionary_map(struct ct_event *e);

// The id of a stack in the dictionaries of now; 0: it is no stack; CT_DIGEST_NO_ID: it has none.
uint32_t ct_dictionary_find_stack(uint32_t stack);

// Stacks of events and checkpoints for which there was no room.
uint64_t ct_dictionary_count_dropped_stacks(void);

// Prefetches the memory that ct_dictionary_map will read. To be called some events earlier.
void ct_dictionary_prefetch(const struct ct_event *e);

// ---- frames -----------------------------------------------------------------------------------

// NEW: a native frame for which no symbol was looked up. MISSING, too: a Python frame needs none.
enum ct_symbol_state { CT_SYMBOL_NEW, CT_SYMBOL_FOUND, CT_SYMBOL_MISSING };

struct ct_frame {
    uint64_t word; // as in cutrace/format/journal.h
    struct ct_loaded_module *module;
    const char *symbol;
    uint32_t symbol_bytes;
    enum ct_symbol_state state;
    uint64_t symbol_offset;
    uint32_t id, generation;
};

// Whether its symbol may be in a table that its module has not loaded yet.
static inline int ct_frame_awaits_table(const struct ct_frame *f) {
    return f->state == CT_SYMBOL_NEW && f->module && !f->module->symbols && !f->module->no_symbols;
}

// The frame of a word of a stack, which is added if it is new; NULL: there is no room.
struct ct_frame *ct_dictionary_intern_frame(uint64_t word);

// ---- symbols --------------------------------------------------------------------------------

// Counts the native frames for which no symbol was looked up yet.
size_t ct_dictionary_count_unresolved(void);

// The next module, from frame *frame on, that has such a frame and no symbol table yet; NULL: none.
struct ct_loaded_module *ct_dictionary_next_unloaded_module(size_t *frame);

// Whether one of these frames lies in no known module.
int ct_dictionary_has_unmapped_frames(void);

// The resolver begins with the frames that there are now, before it reads the loader's list.
void ct_dictionary_begin_resolving(void);

// Resolves frames with the symbol tables that are loaded, and defines those frames again. With
// `final`, of the frames that the resolver began with those that cannot be resolved stay without a
// symbol. Later ones may lie in a module that the loader has loaded since, and wait for the next
// time.
void ct_dictionary_resolve_frames(int final);

// Forgets all frames: after an unload, an address may be in another module.
void ct_dictionary_forget_frames(void);

void ct_dictionary_reinit_child(void);

#endif
