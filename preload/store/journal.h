// SPDX-License-Identifier: Apache-2.0
// The journal: memory of the recorder that outlives the process, because it is a file (cutrace/journal.h
// has its layout). Where a file cannot be had, the same layout lies in memory that does not.
#ifndef CT_PRELOAD_JOURNAL_H
#define CT_PRELOAD_JOURNAL_H

#include <cutrace/format/journal.h>

#define CT_JOURNAL_MAX_RINGS 4096u // at a time; rings of threads that ended are used again

// The open journal, or NULL.
struct ct_journal *ct_journal(void);

// Whether it is a file, so that a killed process loses nothing.
int ct_journal_is_file(void);

// Makes the journal of a trace, where CUTRACE_MEMORY has it. Drain lock held. Returns 0, or -ENOMEM: not even memory.
// `text_of` gives the text of a name that was handed out before there was a journal.
int ct_journal_open(const char *trace_path, uint64_t trace_id, const char *(*text_of)(uint32_t id));

// Why the journal is not a file, for a NOTE; NULL if it is.
const char *ct_journal_get_error(void);

// A new ring, zeroed, with *bytes of it mapped (a page and a power of two), or NULL. Any thread.
struct ct_journal_ring *ct_journal_ring(size_t *bytes);

// The place of a thread's number, or NULL without a journal. Any thread.
struct ct_journal_thread *ct_journal_thread(uint32_t number);

// Sees to it that the text of a name is in the journal, if there is one. Any thread; the same name twice does no harm.
void ct_journal_add_name(uint32_t id, const char *text);

// Address space for stacks, and how far it may be used: more is taken from the disk when it is asked for.
void *ct_journal_reserve_stacks(size_t *bytes);
int ct_journal_grow_stacks(size_t up_to);

// The shelf's memory, NULL if there is none, and how far it may be used: more is taken when it is asked for. Returns how
// many bytes may be. Drain lock held.
uint8_t *ct_journal_get_chunk_memory(void);
uint64_t ct_journal_grow_chunk_memory(uint64_t up_to);

// Block i (from 1). Drain lock held.
struct ct_stream_block *ct_journal_get_block(uint32_t i);

// Puts down a module. Drain lock held.
void ct_journal_module(uint64_t base, uint64_t start, uint64_t end, const char *path,
                       const uint8_t *build_id, uint32_t build_id_bytes);

// Everything is in the trace: the file goes, its memory stays. Drain lock held.
void ct_journal_remove_file(void);

// A forked child: forgets the parent's journal.
void ct_journal_reinit_child(void);

#endif
