// SPDX-License-Identifier: Apache-2.0
// Stores each definition once by its content, and maps the ids of the current generation to that.
#include "read/definitions.h"

#include <cutrace/format/assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

enum {
    MAX_DEFINITIONS = 1 << 24, // of one kind in a generation
    LOW_IDS = 1 << 18,         // ids below are looked up in an array
};

struct ct_definitions_arena {
    struct ct_definitions_arena *previous;
    size_t used, size;
    char bytes[];
};

// Copies bytes to memory that is valid until ct_definitions_free.
static const char *store_bytes(struct ct_definitions *n, const void *bytes, size_t size) {
    struct ct_definitions_arena *a = n->arena;
    if (!a || a->size - a->used < size) {
        const size_t room = size > 65536 ? size : 65536;
        a = ct_heap_resize(NULL, 1, sizeof *a + room);
        *a = (struct ct_definitions_arena){.previous = n->arena, .size = room};
        n->arena = a;
        n->arena_bytes += room;
    }
    char *to = a->bytes + a->used;
    if (size)
        memcpy(to, bytes, size);
    a->used += size;
    return to;
}

static uint64_t set_bytes(const struct ct_id_set *s) {
    return s->capacity * (sizeof *s->ids + sizeof *s->hashes);
}

static uint64_t map_bytes(const struct ct_map *m) {
    return m->capacity * (sizeof *m->entries + sizeof *m->used);
}

// The memory of everything that a definition can make.
static uint64_t count_bytes(const struct ct_definitions *n) {
    uint64_t bytes = n->arena_bytes + n->string_cap * sizeof *n->strings +
                     n->module_cap * sizeof *n->modules + n->frame_cap * sizeof *n->frames +
                     n->location_cap * sizeof *n->locations + n->node_cap * sizeof *n->nodes +
                     n->stack_cap * sizeof *n->stacks + n->thread_cap * sizeof *n->threads +
                     n->info_cap * sizeof *n->info + set_bytes(&n->string_set) +
                     set_bytes(&n->module_set) + set_bytes(&n->frame_set) + set_bytes(&n->pc_set) +
                     set_bytes(&n->node_set) + map_bytes(&n->thread_ids) + map_bytes(&n->info_ids);
    for (unsigned k = 0; k < CT_ID_KINDS; k++)
        bytes += map_bytes(&n->ids[k]) + n->low[k].room * sizeof *n->low[k].own;
    return bytes;
}

// Whether there is room for one more definition. (To read complete ones again takes no more.)
static int has_room(struct ct_definitions *n) {
    n->is_exceeded |= !n->complete && count_bytes(n) > n->most_bytes;
    return !n->is_exceeded;
}

// ---- interning --------------------------------------------------------------------------------

static int same_string(const void *owner, uint32_t id, const void *key) {
    const struct ct_string *a = &((const struct ct_definitions *)owner)->strings[id];
    const struct ct_string *b = key;
    return a->length == b->length && memcmp(a->at, b->at, a->length) == 0;
}

static uint32_t intern_string(struct ct_definitions *n, const void *bytes, size_t length) {
    const struct ct_string s = {bytes, (uint32_t)length};
    if (!length)
        return 0;
    const uint64_t hash = ct_hash_bytes(bytes, length);
    uint32_t *slot = ct_id_set_slot(&n->string_set, hash, same_string, n, &s);
    if (!*slot) {
        CT_HEAP_GROW(n->strings, n->string_count, n->string_cap);
        n->strings[n->string_count] = (struct ct_string){store_bytes(n, bytes, length), s.length};
        *slot = (uint32_t)n->string_count++;
    }
    return *slot;
}

static int same_module(const void *owner, uint32_t id, const void *key) {
    const struct ct_defined_module *a = &((const struct ct_definitions *)owner)->modules[id];
    const struct ct_defined_module *b = key;
    return a->path == b->path && a->base == b->base && a->start == b->start && a->end == b->end &&
           a->build_id.length == b->build_id.length &&
           memcmp(a->build_id.at, b->build_id.at, b->build_id.length) == 0;
}

static uint32_t intern_module(struct ct_definitions *n, const struct ct_defined_module *m) {
    const uint64_t fields[] = {m->path, m->base, m->start, m->end};
    const uint64_t hash =
        ct_hash_bytes(fields, sizeof fields) ^ ct_hash_bytes(m->build_id.at, m->build_id.length);
    uint32_t *slot = ct_id_set_slot(&n->module_set, hash, same_module, n, m);
    if (!*slot) {
        CT_HEAP_GROW(n->modules, n->module_count, n->module_cap);
        struct ct_defined_module *kept = &n->modules[n->module_count];
        *kept = *m;
        kept->build_id.at = store_bytes(n, m->build_id.at, m->build_id.length);
        *slot = (uint32_t)n->module_count++;
    }
    return *slot;
}

static int same_frame(const void *owner, uint32_t id, const void *key) {
    const struct ct_frame *a = &((const struct ct_definitions *)owner)->frames[id];
    const struct ct_frame *b = key;
    if (a->kind != b->kind)
        return 0;
    if (a->kind != CT_FRAME_NATIVE)
        return a->function == b->function && a->file == b->file && a->line == b->line;
    return a->pc == b->pc && a->module == b->module && a->offset == b->offset;
}

static int same_pc(const void *owner, uint32_t id, const void *key) {
    return ((const struct ct_definitions *)owner)->frames[id].pc ==
           ((const struct ct_frame *)key)->pc;
}

static uint64_t hash_frame(const struct ct_frame *f) {
    const int is_native = f->kind == CT_FRAME_NATIVE;
    const uint64_t fields[] = {f->kind, is_native ? f->pc : f->function,
                               is_native ? f->module : f->file, is_native ? f->offset : f->line};
    return ct_hash_bytes(fields, sizeof fields);
}

// Adds what a second definition of the same frame knows.
static void merge_frame(struct ct_frame *known, const struct ct_frame *f) {
    if (f->module) {
        known->module = f->module;
        known->offset = f->offset;
    }
    if (f->function) {
        known->function = f->function;
        known->symbol_offset = f->symbol_offset;
    }
    // Locations never change, and sections are read more than once.
    if (!known->location_count) {
        known->first_location = f->first_location;
        known->location_count = f->location_count;
    }
}

// The frame of a slot, which is added if the slot is empty.
static uint32_t fill_frame(struct ct_definitions *n, uint32_t *slot, const struct ct_frame *f) {
    if (!*slot) {
        CT_HEAP_GROW(n->frames, n->frame_count, n->frame_cap);
        n->frames[n->frame_count] = *f;
        *slot = (uint32_t)n->frame_count++;
    } else if (f->kind == CT_FRAME_NATIVE && !n->complete) {
        merge_frame(&n->frames[*slot], f);
    }
    return *slot;
}

// A native frame is identified by its pc and the module there. A recorder that does not know module
// and symbol yet defines the frame without them, and again later: so an unknown module equals any.
// Whether a frame is so the first one of its pc; as long as that has no module, it is the only one.
static int is_first_of_pc(const struct ct_definitions *n, const struct ct_frame *f,
                          uint32_t first) {
    return first && (!f->module || !n->frames[first].module);
}

static uint32_t intern_native(struct ct_definitions *n, const struct ct_frame *f) {
    uint32_t *first = ct_id_set_slot(&n->pc_set, ct_hash_mix(f->pc), same_pc, n, f);
    const int is_first = is_first_of_pc(n, f, *first);
    const int gets_module = f->module && (!is_first || !n->complete);
    uint32_t *slot =
        gets_module ? ct_id_set_slot(&n->frame_set, hash_frame(f), same_frame, n, f) : first;
    if (is_first)
        *slot = *first;
    const uint32_t id = fill_frame(n, slot, f);
    if (!*first)
        *first = id;
    return id;
}

static uint32_t intern_frame(struct ct_definitions *n, const struct ct_frame *f) {
    if (f->kind == CT_FRAME_NATIVE)
        return intern_native(n, f);
    return fill_frame(n, ct_id_set_slot(&n->frame_set, hash_frame(f), same_frame, n, f), f);
}

static int same_node(const void *owner, uint32_t id, const void *key) {
    const struct ct_call_tree_node *a = &((const struct ct_definitions *)owner)->nodes[id],
                                   *b = key;
    return a->parent == b->parent && a->frame == b->frame;
}

static uint32_t intern_node(struct ct_definitions *n, uint32_t parent, uint32_t frame) {
    const struct ct_call_tree_node node = {
        .parent = parent, .frame = frame, .depth = n->nodes[parent].depth + 1};
    const uint64_t hash = ct_hash_mix((uint64_t)parent << 32 | frame);
    uint32_t *slot = ct_id_set_slot(&n->node_set, hash, same_node, n, &node);
    if (!*slot) {
        CT_HEAP_GROW(n->nodes, n->node_count, n->node_cap);
        n->nodes[n->node_count] = node;
        *slot = (uint32_t)n->node_count++;
    }
    return *slot;
}

// The stack whose innermost node is given; it gets a number when it is first asked for.
static uint32_t number_stack(struct ct_definitions *n, uint32_t node) {
    if (node && !n->nodes[node].stack) {
        CT_HEAP_GROW(n->stacks, n->stack_count, n->stack_cap);
        n->stacks[n->stack_count] = node;
        n->nodes[node].stack = (uint32_t)n->stack_count++;
    }
    return n->nodes[node].stack;
}

uint32_t ct_definitions_thread_stack(struct ct_definitions *n, uint32_t thread) {
    const struct ct_frame f = {.kind = CT_FRAME_THREAD, .function = n->threads[thread].name};
    return f.function ? number_stack(n, intern_node(n, 0, intern_frame(n, &f))) : 0;
}

// ---- reading dictionary entries ---------------------------------------------------------------

uint32_t ct_definitions_id_slow(const struct ct_definitions *n, unsigned kind, uint64_t id) {
    const uint64_t *found = ct_map_find(&n->ids[kind], id);
    return found ? (uint32_t)*found : 0;
}

static uint32_t read_string_id(const struct ct_definitions *n, struct ct_in *in) {
    return ct_definitions_id(n, CT_SECTION_STRINGS, ct_get_varint(in));
}

static uint32_t read_string(struct ct_definitions *n, struct ct_in *in) {
    const size_t length = (size_t)(in->end - in->at);
    if (length > CT_MAX_STRING) {
        in->bad = 1;
        return 0;
    }
    return intern_string(n, in->at, length);
}

static uint32_t read_module(struct ct_definitions *n, struct ct_in *in) {
    struct ct_defined_module m = {0};
    m.path = read_string_id(n, in);
    m.base = ct_get_varint(in);
    m.start = ct_get_varint(in);
    m.end = ct_get_varint(in);
    const uint64_t length = ct_get_varint(in);
    const uint8_t *build_id = ct_get_bytes(in, length);
    if (!build_id || length > 64) {
        in->bad = 1;
        return 0;
    }
    m.build_id = (struct ct_string){(const char *)build_id, (uint32_t)length};
    return intern_module(n, &m);
}

static void read_locations(struct ct_definitions *n, struct ct_frame *f, struct ct_in *in) {
    const uint64_t count = ct_get_varint(in);
    const size_t before = n->location_count;
    if (count > CT_MAX_SOURCE_LOCATIONS)
        in->bad = 1;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        CT_HEAP_GROW(n->locations, n->location_count, n->location_cap);
        struct ct_source_location *p = &n->locations[n->location_count++];
        p->function = read_string_id(n, in);
        p->file = read_string_id(n, in);
        p->line = ct_get_varint(in);
    }
    f->first_location = (uint32_t)before;
    f->location_count = in->bad ? 0 : (uint32_t)count;
}

// Drops the locations of a frame that has some already.
static uint32_t read_native(struct ct_definitions *n, struct ct_in *in) {
    struct ct_frame f = {.kind = CT_FRAME_NATIVE};
    const size_t before = n->location_count;
    f.pc = ct_get_varint(in);
    f.module = ct_definitions_id(n, CT_SECTION_MODULES, ct_get_varint(in));
    f.offset = ct_get_varint(in);
    f.function = read_string_id(n, in);
    f.symbol_offset = ct_get_varint(in);
    if (in->at < in->end && !n->complete) // optional in all versions: `copy` adds them
        read_locations(n, &f, in);
    const uint32_t id = in->bad ? 0 : intern_frame(n, &f);
    if (!n->complete &&
        (!id || !n->frames[id].location_count || n->frames[id].first_location != f.first_location))
        n->location_count = before;
    return id;
}

static uint32_t read_frame(struct ct_definitions *n, struct ct_in *in) {
    struct ct_frame f = {0};
    const uint64_t kind = ct_get_varint(in);
    if (kind == CT_FRAME_NATIVE)
        return read_native(n, in);
    f.kind = kind > CT_FRAME_END ? CT_FRAME_UNKNOWN : (uint32_t)kind;
    if (kind == CT_FRAME_PYTHON) {
        f.function = read_string_id(n, in);
        f.file = read_string_id(n, in);
    }
    if (kind <= CT_FRAME_END)
        f.line = ct_get_varint(in);
    return in->bad ? 0 : intern_frame(n, &f);
}

void ct_definitions_add_location(struct ct_definitions *n, uint32_t frame, const char *function,
                                 const char *file, uint64_t line) {
    struct ct_frame *f = &n->frames[frame];
    if (!f->location_count)
        f->first_location = (uint32_t)n->location_count;
    CT_HEAP_GROW(n->locations, n->location_count, n->location_cap);
    n->locations[n->location_count++] =
        (struct ct_source_location){function ? intern_string(n, function, strlen(function)) : 0,
                                    file ? intern_string(n, file, strlen(file)) : 0, line};
    f->location_count++;
}

// ---- definitions of no trace ------------------------------------------------------------------

static uint32_t intern_name(struct ct_definitions *n, struct ct_string s) {
    return intern_string(n, s.at, s.length < CT_MAX_STRING ? s.length : CT_MAX_STRING);
}

uint32_t ct_definitions_add_python_frame(struct ct_definitions *n, struct ct_string function,
                                         struct ct_string file, uint64_t line) {
    const struct ct_frame f = {.kind = CT_FRAME_PYTHON,
                               .function = intern_name(n, function),
                               .file = intern_name(n, file),
                               .line = line};
    return intern_frame(n, &f);
}

uint32_t ct_definitions_add_native_frame(struct ct_definitions *n, uint64_t number,
                                         struct ct_string function, struct ct_string module) {
    const struct ct_defined_module m = {.path = intern_name(n, module), .build_id = {"", 0}};
    const struct ct_frame f = {.kind = CT_FRAME_NATIVE,
                               .pc = number,
                               .function = intern_name(n, function),
                               .module = m.path ? intern_module(n, &m) : 0};
    return intern_frame(n, &f);
}

uint32_t ct_definitions_add_node(struct ct_definitions *n, uint32_t caller, uint32_t frame) {
    return intern_node(n, caller, frame);
}

uint32_t ct_definitions_add_stack(struct ct_definitions *n, uint32_t node) {
    return number_stack(n, node);
}

// ---- stacks -------------------------------------------------------------------------------------

// A stack in versions 1 and 2: all frames, innermost first.
static uint32_t read_flat_stack(struct ct_definitions *n, struct ct_in *in) {
    uint32_t frames[CT_MAX_STACK], node = 0;
    const uint64_t count = ct_get_varint(in);
    uint64_t id = 0;
    if (count > CT_MAX_STACK)
        in->bad = 1;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        id += ct_unzigzag(ct_get_varint(in));
        frames[i] = ct_definitions_id(n, CT_SECTION_FRAMES, id);
    }
    if (in->bad)
        return 0;
    for (uint64_t i = count; i-- > 0;)
        node = intern_node(n, node, frames[i]);
    return number_stack(n, node);
}

// Maps an id of the trace to an id here.
static void map_id(struct ct_definitions *n, unsigned kind, uint64_t id, uint32_t own) {
    const size_t room = n->low[kind].room;
    if (!id)
        return;
    *ct_map_add(&n->ids[kind], id) = own;
    if (id >= room && id < LOW_IDS) {
        size_t more = room ? room : 256;
        while (more <= id)
            more *= 2;
        n->low[kind].own = ct_heap_resize(n->low[kind].own, more, sizeof own);
        memset(n->low[kind].own + room, 0, (more - room) * sizeof own);
        n->low[kind].room = more;
    }
    if (id < LOW_IDS)
        n->low[kind].own[id] = own;
}

// A stack since version 3: frames, outermost first, that are added below a node of the call tree.
// If the node is unknown (its chunk was lost), they are added below an unknown frame.
static uint32_t read_stack(struct ct_definitions *n, struct ct_in *in) {
    const uint64_t parent = ct_get_varint(in), count = ct_get_varint(in);
    uint64_t number = count ? ct_get_varint(in) : 0, frame = 0;
    uint32_t node = ct_definitions_id(n, CT_ID_NODES, parent);
    if (parent && !node)
        node = intern_node(n, 0, 0);
    if (count > CT_MAX_STACK - n->nodes[node].depth ||
        n->ids[CT_ID_NODES].count + count > MAX_DEFINITIONS)
        in->bad = 1;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        frame += ct_unzigzag(ct_get_varint(in));
        if (in->bad)
            return 0;
        node = intern_node(n, node, ct_definitions_id(n, CT_SECTION_FRAMES, frame));
        map_id(n, CT_ID_NODES, number++, node);
    }
    return in->bad ? 0 : number_stack(n, node);
}

static uint32_t read_thread(struct ct_definitions *n, struct ct_in *in) {
    const uint64_t tid = ct_get_varint(in);
    const uint32_t name = read_string_id(n, in);
    if (in->bad)
        return 0;
    uint64_t *id = ct_map_add(&n->thread_ids, tid);
    if (!*id) {
        CT_HEAP_GROW(n->threads, n->thread_count, n->thread_cap);
        n->threads[n->thread_count] = (struct ct_defined_thread){tid, 0};
        *id = n->thread_count++;
    }
    if (name && !n->complete)
        n->threads[*id].name = name;
    return (uint32_t)*id;
}

static int read_info(struct ct_definitions *n, struct ct_in in) {
    while (in.at < in.end && !in.bad) {
        uint32_t pair[2];
        if (!has_room(n))
            return -1;
        for (int i = 0; i < 2; i++) {
            const uint64_t length = ct_get_varint(&in);
            const uint8_t *text = ct_get_bytes(&in, length);
            if (!text || length > CT_MAX_STRING)
                return -1;
            pair[i] = intern_string(n, text, (size_t)length);
        }
        uint64_t *at = ct_map_add(&n->info_ids, pair[0]);
        if (!*at) {
            CT_HEAP_GROW(n->info, n->info_count, n->info_cap);
            n->info[n->info_count].key = pair[0];
            *at = n->info_count++;
        }
        n->info[*at].value = pair[1];
    }
    return in.bad ? -1 : 0;
}

static uint32_t read_entry(struct ct_definitions *n, unsigned version, unsigned kind,
                           struct ct_in *entry) {
    switch (kind) {
    case CT_SECTION_STRINGS:
        return read_string(n, entry);
    case CT_SECTION_MODULES:
        return read_module(n, entry);
    case CT_SECTION_FRAMES:
        return read_frame(n, entry);
    case CT_SECTION_STACKS:
        return version < 3 ? read_flat_stack(n, entry) : read_stack(n, entry);
    default:
        CT_ASSERT(kind == CT_SECTION_THREADS);
        return read_thread(n, entry);
    }
}

int ct_definitions_read_section(struct ct_definitions *n, unsigned version, unsigned kind,
                                struct ct_in in) {
    if (kind == CT_SECTION_INFO)
        return n->complete ? 0 : read_info(n, in);
    if (kind < CT_SECTION_STRINGS || kind > CT_SECTION_THREADS)
        return 0;
    while (in.at < in.end) {
        const uint64_t id = ct_get_varint(&in);
        struct ct_in entry = ct_get_slice(&in, ct_get_varint(&in));
        if (in.bad || entry.bad || n->ids[kind].count > MAX_DEFINITIONS || !has_room(n))
            return -1;
        const uint32_t own = read_entry(n, version, kind, &entry);
        if (entry.bad)
            return -1;
        map_id(n, kind, id, own);
    }
    return 0;
}

void ct_definitions_finish(struct ct_definitions *n) {
    n->defined_stacks = n->stack_count - 1;
    for (size_t i = 1; i < n->thread_count; i++)
        (void)ct_definitions_thread_stack(n, (uint32_t)i);
    n->complete = 1;
}

static void forget_ids(struct ct_definitions *n) {
    for (unsigned k = 0; k < CT_ID_KINDS; k++) {
        ct_map_free(&n->ids[k]);
        free(n->low[k].own);
        n->low[k].own = NULL;
        n->low[k].room = 0;
    }
}

// ---- lifetime and look-up -----------------------------------------------------------------------

void ct_definitions_set_generation(struct ct_definitions *n, uint64_t dict_seq) {
    if (n->generation == dict_seq)
        return;
    n->generation = dict_seq;
    forget_ids(n);
}

void ct_definitions_init(struct ct_definitions *n) {
    memset(n, 0, sizeof *n);
    n->generation = n->most_bytes = UINT64_MAX;
    n->strings = ct_heap_alloc_zeroed(n->string_cap = 64, sizeof *n->strings);
    n->modules = ct_heap_alloc_zeroed(n->module_cap = 16, sizeof *n->modules);
    n->frames = ct_heap_alloc_zeroed(n->frame_cap = 64, sizeof *n->frames);
    n->nodes = ct_heap_alloc_zeroed(n->node_cap = 64, sizeof *n->nodes);
    n->stacks = ct_heap_alloc_zeroed(n->stack_cap = 64, sizeof *n->stacks);
    n->threads = ct_heap_alloc_zeroed(n->thread_cap = 16, sizeof *n->threads);
    n->info = ct_heap_alloc_zeroed(n->info_cap = 16, sizeof *n->info);
    n->string_count = n->module_count = n->frame_count = n->node_count = n->stack_count = 1;
    n->thread_count = n->info_count = 1;
    n->strings[0].at = "";
    n->modules[0].build_id.at = "";
}

void ct_definitions_free(struct ct_definitions *n) {
    while (n->arena) {
        struct ct_definitions_arena *previous = n->arena->previous;
        free(n->arena);
        n->arena = previous;
    }
    free(n->strings);
    free(n->modules);
    free(n->frames);
    free(n->stacks);
    free(n->threads);
    free(n->info);
    free(n->locations);
    free(n->nodes);
    ct_id_set_free(&n->string_set);
    ct_id_set_free(&n->module_set);
    ct_id_set_free(&n->frame_set);
    ct_id_set_free(&n->pc_set);
    ct_id_set_free(&n->node_set);
    ct_map_free(&n->thread_ids);
    ct_map_free(&n->info_ids);
    for (unsigned k = 0; k < CT_ID_KINDS; k++) {
        ct_map_free(&n->ids[k]);
        free(n->low[k].own);
    }
}

const struct ct_string *ct_definitions_info(const struct ct_definitions *n, const char *key) {
    const size_t length = strlen(key);
    for (size_t i = 1; i < n->info_count; i++) {
        const struct ct_string *k = &n->strings[n->info[i].key];
        if (k->length == length && memcmp(k->at, key, length) == 0)
            return &n->strings[n->info[i].value];
    }
    return NULL;
}

const struct ct_string *ct_definitions_device_info(const struct ct_definitions *n, int device,
                                                   const char *name) {
    char key[64];
    (void)snprintf(key, sizeof key, "device.%d.%s", device, name);
    return ct_definitions_info(n, key);
}

static int read_number(const struct ct_string *s, uint64_t *value) {
    uint64_t v = 0;
    if (!s || !s->length || s->length > 19)
        return 0;
    for (uint32_t i = 0; i < s->length; i++) {
        if (s->at[i] < '0' || s->at[i] > '9')
            return 0;
        v = v * 10 + (uint64_t)(s->at[i] - '0');
    }
    *value = v;
    return 1;
}

int ct_definitions_info_number(const struct ct_definitions *n, const char *key, uint64_t *value) {
    return read_number(ct_definitions_info(n, key), value);
}

int ct_definitions_device_number(const struct ct_definitions *n, int device, const char *name,
                                 uint64_t *value) {
    return read_number(ct_definitions_device_info(n, device, name), value);
}
