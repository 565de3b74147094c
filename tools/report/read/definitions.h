// SPDX-License-Identifier: Apache-2.0
// What the ids in a trace stand for: strings, modules, frames, stacks, threads, and the key/value
// pairs of INFO.
//
// A trace defines the same thing under different ids after each checkpoint (a generation of
// dictionaries). Here each thing has one id in the whole trace, 1 and up; 0 means unknown.
#ifndef CT_DEFINITIONS_H
#define CT_DEFINITIONS_H

#include <cutrace/format/bytes.h>

#include "base/id_set.h"
#include "base/map.h"

struct ct_string {
    const char *at; // bytes as recorded, any value, not terminated
    uint32_t length;
};

// As strcmp.
static inline int ct_string_compare(struct ct_string x, struct ct_string y) {
    const uint32_t n = x.length < y.length ? x.length : y.length;
    const int c = n ? memcmp(x.at, y.at, n) : 0;
    return c ? c : (x.length > y.length) - (x.length < y.length);
}

struct ct_defined_module {
    uint32_t path;
    uint64_t base, start, end;
    struct ct_string build_id; // raw bytes
};

// Kinds of frame beyond enum ct_frame_kind. UNKNOWN: of a later version of the format. THREAD:
// stands for a missing stack and has the name of the thread (`function`).
enum { CT_FRAME_UNKNOWN = 3, CT_FRAME_THREAD = 4 };

struct ct_frame {
    uint32_t kind;
    uint32_t module;        // native
    uint64_t pc, offset;    // native; offset is the address in the ELF file
    uint64_t symbol_offset; // native
    uint32_t function;      // native: mangled symbol
    uint32_t file;          // Python
    uint64_t line;          // Python: 0 = unknown; of an end: enum ct_stack_end
    // Native: its part of `locations`, innermost inlined function first, the frame's own function
    // last. 0 of them: not known.
    uint32_t first_location;
    uint32_t location_count;
};

// Where in the source the code of a native frame is.
struct ct_source_location {
    uint32_t function, file;
    uint64_t line; // 0 = unknown
};

// A frame and its callers. Stacks form a tree in which shared callers are stored once.
struct ct_call_tree_node {
    uint32_t parent; // the caller's node, 0: none
    uint32_t frame;
    uint32_t depth; // frames from this one outwards
    uint32_t stack; // the stack whose innermost frame this is, 0: none
};

struct ct_defined_thread {
    uint64_t tid;
    uint32_t name;
};

struct ct_info_pair {
    uint32_t key, value; // strings
};

// Kinds of ids: the sections that define them, and the nodes of the call tree.
enum { CT_ID_NODES = CT_SECTION_THREADS + 1, CT_ID_KINDS };

struct ct_definitions {
    // By id; element 0 of each array is the unknown one.
    struct ct_string *strings;
    struct ct_defined_module *modules;
    struct ct_frame *frames;
    struct ct_source_location *locations;
    struct ct_call_tree_node *nodes;
    uint32_t *stacks; // innermost node of each
    struct ct_defined_thread *threads;
    struct ct_info_pair *info;
    size_t string_count, module_count, frame_count, location_count, node_count, stack_count,
        thread_count, info_count;
    size_t string_cap, module_cap, frame_cap, location_cap, node_cap, stack_cap, thread_cap,
        info_cap;
    struct ct_id_set string_set, module_set, frame_set, node_set;
    struct ct_id_set pc_set;            // the first native frame of each pc
    struct ct_map thread_ids, info_ids; // by tid, by key string
    struct ct_definitions_arena *arena;
    uint64_t arena_bytes;
    uint64_t most_bytes; // of memory for all of this (bounds.h)
    int is_exceeded;     // a section asked for more than that
    // All dictionaries were read. To read them again only maps ids, so that another thread may look
    // at definitions meanwhile.
    int complete;
    size_t defined_stacks; // how many of the stacks the trace defines
    // The current generation: ids in the trace -> ids here.
    uint64_t generation;
    struct ct_map ids[CT_ID_KINDS];
    struct {
        uint32_t *own; // the same for low ids, nearly all of them: 0 = not defined
        size_t room;
    } low[CT_ID_KINDS];
};

// Without a bound: `most_bytes` is to be set for those of a trace.
void ct_definitions_init(struct ct_definitions *n);
void ct_definitions_free(struct ct_definitions *n);
// Begins another generation, in which ids mean something else.
void ct_definitions_set_generation(struct ct_definitions *n, uint64_t dict_seq);
// Reads a dictionary or INFO section of a chunk of this format version; ignores sections of other
// kinds. 0, or -1: malformed, or `is_exceeded`.
int ct_definitions_read_section(struct ct_definitions *n, unsigned version, unsigned kind,
                                struct ct_in section);
// The id here of an id in the trace, 0 if it is not defined.
uint32_t ct_definitions_id_slow(const struct ct_definitions *n, unsigned kind, uint64_t id);
static inline uint32_t ct_definitions_id(const struct ct_definitions *n, unsigned kind,
                                         uint64_t id) {
    return id < n->low[kind].room ? n->low[kind].own[id] : ct_definitions_id_slow(n, kind, id);
}
// To be called when all dictionaries were read.
void ct_definitions_finish(struct ct_definitions *n);
// The stack that stands for a missing one: a frame with the thread's name. 0 if it has no name.
uint32_t ct_definitions_thread_stack(struct ct_definitions *n, uint32_t thread);

static inline const struct ct_call_tree_node *ct_definitions_stack_node(
    const struct ct_definitions *n, uint32_t stack) {
    return &n->nodes[n->stacks[stack]];
}
static inline const struct ct_frame *ct_definitions_node_frame(const struct ct_definitions *n,
                                                               uint32_t node) {
    return &n->frames[n->nodes[node].frame];
}
// Appends a location to those of a native frame. All locations of a frame are added one after the
// other. NULL and 0: unknown.
void ct_definitions_add_location(struct ct_definitions *n, uint32_t frame, const char *function,
                                 const char *file, uint64_t line);
// Definitions that come from no trace: the same things as above, each stored once. Names are cut at
// CT_MAX_STRING bytes. Of a native frame `number` tells it from others, and `module` is the path of
// its library, "" if it is not known.
uint32_t ct_definitions_add_python_frame(struct ct_definitions *n, struct ct_string function,
                                         struct ct_string file, uint64_t line);
uint32_t ct_definitions_add_native_frame(struct ct_definitions *n, uint64_t number,
                                         struct ct_string function, struct ct_string module);
// The node of a frame below its caller's node (0: it has none), and the stack that ends there.
uint32_t ct_definitions_add_node(struct ct_definitions *n, uint32_t caller, uint32_t frame);
uint32_t ct_definitions_add_stack(struct ct_definitions *n, uint32_t node);
// The value of an INFO key, or NULL.
const struct ct_string *ct_definitions_info(const struct ct_definitions *n, const char *key);
// The same as a number. 1, or 0 if it is none.
int ct_definitions_info_number(const struct ct_definitions *n, const char *key, uint64_t *value);
// The same of a device: the key device.DEVICE.NAME.
const struct ct_string *ct_definitions_device_info(const struct ct_definitions *n, int device,
                                                   const char *name);
int ct_definitions_device_number(const struct ct_definitions *n, int device, const char *name,
                                 uint64_t *value);

#endif
