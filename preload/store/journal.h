// SPDX-License-Identifier: Apache-2.0
// The journal: memory of the recorder that outlives the process, because it is a mapped file. Where
// no file can be had, the same layout lies in private memory. cutrace/format/journal.h describes
// the layout.
#ifndef CT_STORE_JOURNAL_H
#define CT_STORE_JOURNAL_H

#include <cutrace/format/journal.h>

// Rings at a time. A ring is used again when its thread has ended.
#define CT_JOURNAL_MAX_RINGS 4096u

// Blocks of the open chunk's streams: enough for 64 Ki events and their definitions.
#define CT_JOURNAL_BLOCKS 768u

// The open journal, or NULL. Any thread.
struct ct_journal *ct_journal_get(void);

// Whether the journal is a file, so that a killed process loses nothing. Any thread.
int ct_journal_is_file(void);

// Creates the journal of a trace: beside it, or on a tmpfs with CUTRACE_MEMORY. text_of gives the
// text of a name that was interned before (NULL for an unused id). Drain lock held. Returns 0, or
// -ENOMEM if there is not even private memory.
int ct_journal_open(const char *trace_path, uint64_t trace_id, const char *(*text_of)(uint32_t id));

// Why the journal is not a file, for a NOTE; NULL if it is one.
const char *ct_journal_get_error(void);

// Maps a new ring of zeros: *bytes are a page and a power of two. *is_apart: it lies in private
// memory although the journal is a file. NULL if there is no memory. Any thread.
struct ct_journal_ring *ct_journal_add_ring(size_t *bytes, int *is_apart);

// The entry for a thread's number, or NULL without a journal. Any thread.
struct ct_journal_thread *ct_journal_get_thread(uint32_t number);

// Puts the text of a name into the journal if there is one and it lacks the name. Any thread.
void ct_journal_add_name(uint32_t id, const char *text);

// Reserves address space for stacks: *bytes of it, or NULL without a journal. It becomes usable
// where ct_journal_grow_stacks (0 or -ENOMEM) has reached. Any thread may grow it; one thread
// reserves it.
void *ct_journal_reserve_stacks(size_t *bytes);
int ct_journal_grow_stacks(size_t up_to);

// The memory for chunks, NULL without CUTRACE_MEMORY, and its bytes. It becomes usable where
// ct_journal_grow_chunk_memory has reached, which returns how many bytes are usable. Where no more
// can be had, ct_journal_shrink_chunk_memory makes it that. Drain lock held.
uint8_t *ct_journal_get_chunk_memory(void);
uint64_t ct_journal_get_chunk_bytes(void);
uint64_t ct_journal_grow_chunk_memory(uint64_t up_to);
void ct_journal_shrink_chunk_memory(uint64_t bytes);

// Block i of the streams, from 1. Drain lock held.
struct ct_stream_block *ct_journal_get_block(uint32_t i);

// Adds a loaded module. Drain lock held.
void ct_journal_add_module(uint64_t base, uint64_t start, uint64_t end, const char *path,
                           const uint8_t *build_id, uint32_t build_id_bytes);

// Removes the file once the trace has everything. The memory stays usable. Drain lock held.
void ct_journal_remove_file(void);

// In a forked child: unmaps and forgets the parent's journal. Only the forking thread may be
// running.
void ct_journal_reinit_child(void);

#endif
