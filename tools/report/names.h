// SPDX-License-Identifier: Apache-2.0
// What the numbers in a trace stand for: strings, modules, frames, stacks, threads and facts.
//
// A trace may define the same thing under different ids after each checkpoint; here each thing has
// one id for the whole trace (1 and up, 0 = unknown).
#ifndef CT_NAMES_H
#define CT_NAMES_H

#include <cutrace/codec.h>

#include "table.h"

struct ct_string {
    const char *at; // bytes as recorded, any value, not terminated
    uint32_t length;
};

struct ct_module {
    uint32_t path;
    uint64_t base, start, end;
    struct ct_string build_id; // raw bytes
};

struct ct_frame {
    uint32_t kind;          // enum ct_frame_kind
    uint32_t module;        // native
    uint64_t pc, offset;    // native; offset is the address in the ELF file
    uint64_t symbol_offset; // native
    uint32_t function;      // native: mangled symbol
    uint32_t file;          // Python
    uint64_t line;          // Python; 0 = unknown
};

struct ct_stack {
    size_t first; // in stack_frames, innermost first
    uint32_t count;
};

struct ct_thread {
    uint64_t tid;
    uint32_t name;
};

struct ct_fact {
    uint32_t key, value; // strings
};

struct ct_names {
    // Element 0 of each array is the unknown one.
    struct ct_string *strings;
    struct ct_module *modules;
    struct ct_frame *frames;
    struct ct_stack *stacks;
    struct ct_thread *threads;
    struct ct_fact *facts;
    uint32_t *stack_frames;
    size_t string_count, module_count, frame_count, stack_count, thread_count, fact_count;
    size_t string_cap, module_cap, frame_cap, stack_cap, thread_cap, fact_cap;
    size_t stack_frame_count, stack_frame_cap;
    struct ct_set string_set, module_set, frame_set, stack_set;
    struct ct_map thread_ids, fact_ids; // by tid, by key string
    struct ct_arena *arena;
    // Ids of the trace's dictionary generation in force -> ids here.
    uint64_t generation;
    struct ct_map ids[CT_SECTION_THREADS + 1];
};

void ct_names_init(struct ct_names *n);
void ct_names_free(struct ct_names *n);
// Another generation begins: its ids mean something else.
void ct_names_generation(struct ct_names *n, uint64_t dict_seq);
// Takes in a dictionary or INFO section; sections of other kinds are ignored. 0, or -1: malformed.
int ct_names_section(struct ct_names *n, unsigned kind, struct ct_in section);
// Id here of an id of the trace; 0 if it was never defined.
uint32_t ct_names_id(const struct ct_names *n, enum ct_section kind, uint64_t id);
// Value of an INFO key, or NULL. The copy of it as a number: 1 if it is one.
const struct ct_string *ct_names_fact(const struct ct_names *n, const char *key);
int ct_names_number(const struct ct_names *n, const char *key, uint64_t *value);

#endif
