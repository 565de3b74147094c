// SPDX-License-Identifier: Apache-2.0
// What the numbers in a trace stand for: strings, modules, frames, stacks, threads and facts.
//
// A trace may define the same thing under different ids after each checkpoint; here each thing has
// one id for the whole trace (1 and up, 0 = unknown).
#ifndef CT_NAMES_H
#define CT_NAMES_H

#include <cutrace/format/codec.h>

#include "base/table.h"

struct ct_string {
    const char *at; // bytes as recorded, any value, not terminated
    uint32_t length;
};

struct ct_module {
    uint32_t path;
    uint64_t base, start, end;
    struct ct_string build_id; // raw bytes
};

// Kinds of frame beyond enum ct_frame_kind. LATER: of a version of the format that is not known. THREAD: the name of a
// thread (`function`), where no frame of it is known.
enum { CT_FRAME_LATER = 3, CT_FRAME_THREAD = 4 };

struct ct_frame {
    uint32_t kind;
    uint32_t module;        // native
    uint64_t pc, offset;    // native; offset is the address in the ELF file
    uint64_t symbol_offset; // native
    uint32_t function;      // native: mangled symbol
    uint32_t file;          // Python
    uint64_t line;          // Python; 0 = unknown. Of an end: enum ct_stack_end
    uint32_t
        first_place; // native: in `places`, the innermost inlined function first, the last one is the frame's own
    uint32_t place_count; // 0: not known
};

// Where in its source a native frame is.
struct ct_place {
    uint32_t function, file;
    uint64_t line; // 0 = unknown
};

// A frame with those that called it: stacks are a tree, of which each frame that they share is kept once.
struct ct_node {
    uint32_t parent; // the node of its caller, 0: there is none
    uint32_t frame;
    uint32_t depth; // frames from here on outwards
    uint32_t stack; // the stack that begins here, 0: none does
};

struct ct_ring_thread {
    uint64_t tid;
    uint32_t name;
};

struct ct_fact {
    uint32_t key, value; // strings
};

// What has ids in a trace: by the section that defines it, and nodes.
enum { CT_IDS_OF_NODES = CT_SECTION_THREADS + 1, CT_IDS };

struct ct_names {
    // Element 0 of each array is the unknown one.
    struct ct_string *strings;
    struct ct_module *modules;
    struct ct_frame *frames;
    struct ct_place *places;
    struct ct_node *nodes;
    uint32_t *stacks; // the innermost node of each
    struct ct_ring_thread *threads;
    struct ct_fact *facts;
    size_t string_count, module_count, frame_count, place_count, node_count, stack_count,
        thread_count, fact_count;
    size_t string_cap, module_cap, frame_cap, place_cap, node_cap, stack_cap, thread_cap, fact_cap;
    struct ct_set string_set, module_set, frame_set, node_set;
    struct ct_map thread_ids, fact_ids; // by tid, by key string
    struct ct_arena *arena;
    // Everything is known: what is read again gives ids of a generation their meaning and changes nothing else, so that
    // another thread may look at names meanwhile.
    int complete;
    size_t defined_stacks; // of stack_count, those that the trace defines
    // Ids of the trace's dictionary generation in force -> ids here.
    uint64_t generation;
    struct ct_map ids[CT_IDS];
    struct {
        uint32_t *mine; // the same for small ids, which are nearly all: 0 if not defined
        size_t room;
    } low[CT_IDS];
};

void ct_names_init(struct ct_names *n);
void ct_names_free(struct ct_names *n);
// Another generation begins: its ids mean something else.
void ct_names_generation(struct ct_names *n, uint64_t dict_seq);
// Takes in a dictionary or INFO section of a chunk of this version of the format; sections of other kinds are ignored. 0, or
// -1: malformed.
int ct_names_section(struct ct_names *n, unsigned version, unsigned kind, struct ct_in section);
// Id here of an id of the trace; 0 if it was never defined.
uint32_t ct_names_any_id(const struct ct_names *n, unsigned kind, uint64_t id);
static inline uint32_t ct_names_id(const struct ct_names *n, unsigned kind, uint64_t id) {
    return id < n->low[kind].room ? n->low[kind].mine[id] : ct_names_any_id(n, kind, id);
}
// All dictionaries have been read.
void ct_names_complete(struct ct_names *n);
// The stack for what a thread did without one: its name, 0 if it has none.
uint32_t ct_names_thread_stack(struct ct_names *n, uint32_t thread);

static inline const struct ct_node *ct_stack_node(const struct ct_names *n, uint32_t stack) {
    return &n->nodes[n->stacks[stack]];
}
static inline const struct ct_frame *ct_node_frame(const struct ct_names *n, uint32_t node) {
    return &n->frames[n->nodes[node].frame];
}
// One more place of a native frame, behind those that it has; those of a frame follow one another. NULL and 0: unknown.
void ct_names_add_place(struct ct_names *n, uint32_t frame, const char *function, const char *file,
                        uint64_t line);
// Value of an INFO key, or NULL. The copy of it as a number: 1 if it is one.
const struct ct_string *ct_names_fact(const struct ct_names *n, const char *key);
int ct_names_number(const struct ct_names *n, const char *key, uint64_t *value);

#endif
