// SPDX-License-Identifier: Apache-2.0
// The table of call stacks: interns each stack once, in the journal, so that events carry its id.
// stack/capture.c captures them. Lock-free; any thread.
#ifndef CT_STORE_STACK_TABLE_H
#define CT_STORE_STACK_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/journal.h>

// A stack as the journal has it (struct ct_journal_stack): words of cutrace/format/journal.h,
// innermost first. Each native frame is a return address, also the innermost one, because stacks
// are captured inside a call. An entry without frames is an alias.
struct ct_stack_entry {
    _Atomic uint64_t hash; // never 0; written last (release)
    uint32_t frames;
    uint32_t
        file_id; // the drainer's: id in the file's dictionary; of an alias: the stack it stands for
    uint32_t file_generation; // the generation of that dictionary
    uint32_t reserved;
    uint64_t frame[];
};
_Static_assert(sizeof(struct ct_stack_entry) == sizeof(struct ct_journal_stack) &&
                   offsetof(struct ct_stack_entry, frame) ==
                       offsetof(struct ct_journal_stack, frame),
               "an entry is a struct ct_journal_stack");

// The stack with an id of ct_stack_table_intern; NULL if there is none.
struct ct_stack_entry *ct_stack_table_get(uint32_t id);

// File and function of a Python frame's word. Returns 0, or -1: it has no text.
int ct_stack_table_read_code_name(uint64_t word, struct ct_code_name *name);

// Interns a stack of n frames. Returns its id, 0 when the table is full.
uint32_t ct_stack_table_intern(const uint64_t *frames, size_t n);

// Finds a stack by an alias: another key, which the caller can compute without the frames (from the
// hashes of its parts). A key is a hash, never 0. Returns the id of the stack, 0 if the key is
// unknown.
uint32_t ct_stack_table_find_alias(uint64_t key);
void ct_stack_table_add_alias(uint64_t key, uint32_t stack);

// Stacks that were dropped because the table was full.
extern _Atomic uint64_t ct_stack_table_dropped;

// In a forked child: empties the table, because the parent's stacks are in the parent's journal.
// Only the forking thread may be running.
void ct_stack_table_reinit_child(void);

#endif
