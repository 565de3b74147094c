// SPDX-License-Identifier: Apache-2.0
// The dictionaries of the file: what the process's own numbers (names, stacks, threads) are called
// in it. Drainer only.
#ifndef CT_DICTIONARY_H
#define CT_DICTIONARY_H

#include <cutrace/format/codec.h>

#include "store/loaded_modules.h"

// Starts a generation: every definition is made again when it is next used.
void ct_dictionary_begin_generation(void);

// Whether the process's own tables are so full that a new generation should begin.
int ct_dictionary_is_full(void);

// Replaces the process's numbers in an event by ids in the file; a definition is put into the chunk that is being
// filled (staged.h) where it is missing. What has no id loses its presence.
void ct_dictionary_map(struct ct_event *e);

// Fetches what ct_dictionary_map will look at. Call it some events ahead.
void ct_dictionary_prefetch(const struct ct_event *e);

// ---- symbols --------------------------------------------------------------------------------

// Frames that have neither a symbol nor the verdict that there is none.
size_t ct_dictionary_count_unresolved(void);

// The next module, from *n on, that such frames are waiting for and whose symbols are not loaded.
struct ct_module *ct_dictionary_next_unloaded_module(size_t *n);

// Whether such frames lie in no known module.
int ct_dictionary_has_unmapped_frames(void);

// Resolves what can be resolved with the tables that are loaded and defines those frames again.
// `final`: frames in no known module will never be resolved.
void ct_dictionary_resolve_frames(int final);

// All addresses may mean something else now.
void ct_dictionary_forget_frames(void);

// Best short name of where a stack comes from: a symbol, or module+0xoffset. Returns its length, or
// 0.
size_t ct_dictionary_format_caller(uint32_t stack, char *out, size_t size);

// The module whose symbols that name waits for, or NULL.
struct ct_module *ct_dictionary_find_caller_module(uint32_t stack);

void ct_dictionary_reinit_child(void);

#endif
