// SPDX-License-Identifier: Apache-2.0
// The dictionaries of the trace: ids for names, threads, modules, frames and stacks, and their
// definitions. Strings and frames are kept for several generations; each entry knows the generation
// in which it was last defined.
#include "write/dictionary.h"

#include <string.h>

#include <cutrace/model/digest.h>

#include "base/options.h"
#include "base/pages.h"
#include "base/print.h"
#include "base/read_file.h"
#include "store/name_table.h"
#include "store/ring.h"
#include "store/stack_table.h"
#include "write/hash_slots.h"
#include "write/open_chunk.h"
#include "write/package_versions.h"

#define STRINGS (3u << 16)
#define FRAMES (1u << 18)
#define NODES (1u << 20)
#define THREAD_IDS 4096u

struct string {
    const char *text;
    uint32_t bytes, hash;
    uint32_t id, generation;
};

// The stacks of a trace are a tree. A node is a frame, called by the frames of `parent`; all three
// are ids.
struct node {
    uint32_t parent, frame;
    uint32_t id;
};

static uint32_t generation = 1;
static int generation_is_requested;
static uint32_t next_string, next_module, next_frame, next_node, next_stack, next_thread;
static uint64_t stacks_dropped;

// In the order of first use.
static struct string *strings;
static struct ct_hash_slots string_slots;
static uint32_t strings_used;
static struct ct_arena string_texts = {.bytes = 16u << 20};

static struct ct_frame *frames;
static struct ct_hash_slots frame_slots;
static uint32_t frames_used, frames_resolved_up_to, frames_unresolved;
static uint32_t frames_begun_with; // by the resolver

// Of this generation.
static struct node *nodes;
static struct ct_hash_slots node_slots;
static uint32_t nodes_used;

static struct { uint32_t id, generation; } name_ids[CT_NAME_IDS];
// By the thread's number modulo THREAD_IDS, as in the journal.
static struct { uint32_t number, id, generation; } thread_ids[THREAD_IDS];

// ---- definitions ----------------------------------------------------------------------------

// What a definition says about its id. Small, because a thread of the host may have a small stack;
// the payload of a stack is built in static memory.
struct payload {
    uint8_t bytes[192];
};

// Puts a definition (id, length, payload) into the open chunk, or nothing at all: a part would make
// all definitions after it unreadable. Returns 0, or -1: the chunk is full.
static int put_definition(enum ct_section kind, uint32_t id, const void *payload, size_t n) {
    uint8_t head[20];
    struct ct_out o = {head, head + sizeof head, 0};
    ct_put_varint(&o, id);
    ct_put_varint(&o, n);
    if (ct_open_chunk_blocks_left() <
        CT_OPEN_CHUNK_EVENT_BLOCKS + 1 +
            (n + sizeof head) / sizeof((struct ct_stream_block *)0)->bytes)
        return -1;
    if (ct_open_chunk_define(kind, head, (size_t)(o.at - head)) ||
        ct_open_chunk_define(kind, payload, n))
        return -1;
    return 0;
}

static struct ct_out begin_payload(struct payload *p) {
    return (struct ct_out){p->bytes, p->bytes + sizeof p->bytes, 0};
}

static int put_payload(struct payload *p, const struct ct_out *o, enum ct_section kind,
                       uint32_t id) {
    return o->bad ? -1 : put_definition(kind, id, p->bytes, (size_t)(o->at - p->bytes));
}

static int is_nearly_full(void) {
    return strings_used > STRINGS / 3 * 2 || frames_used > FRAMES / 4 * 3 ||
           nodes_used > NODES / 4 * 3 ||
           atomic_load(&string_texts.used) > string_texts.bytes / 4 * 3;
}

void ct_dictionary_request_generation(void) {
    generation_is_requested = 1;
}

int ct_dictionary_wants_generation(void) {
    return generation_is_requested || is_nearly_full();
}

void ct_dictionary_begin_generation(void) {
    generation_is_requested = 0;
    if (is_nearly_full()) {
        ct_dictionary_forget_frames(); // frames point to strings
        ct_hash_slots_clear(&string_slots);
        strings_used = 0;
        atomic_store(&string_texts.used, 0);
    }
    ct_hash_slots_clear(&node_slots);
    nodes_used = 0;
    generation++;
    next_string = next_module = next_frame = next_node = next_stack = next_thread = 0;
}

// ---- strings --------------------------------------------------------------------------------

static uint32_t hash_of_string(uint32_t index) {
    return strings[index].hash;
}

// The string with this text, which is copied at its first use; NULL if the table is full.
static struct string *intern_string(const char *text, size_t n) {
    if (!strings && !(strings = ct_pages_map(STRINGS * sizeof *strings)))
        return NULL;
    if (ct_hash_slots_reserve(&string_slots, strings_used, hash_of_string))
        return NULL;
    const uint32_t h = ct_name_hash(text, n);
    uint32_t i = h & (string_slots.room - 1);
    for (; string_slots.at[i]; i = (i + 1) & (string_slots.room - 1)) {
        struct string *s = &strings[string_slots.at[i] - 1];
        if (s->hash == h && s->bytes == n && !memcmp(s->text, text, n))
            return s;
    }
    const char *copy = strings_used < STRINGS ? ct_arena_copy_text(&string_texts, text, n) : NULL;
    if (!copy)
        return NULL;
    strings[strings_used] = (struct string){.text = copy, .bytes = (uint32_t)n, .hash = h};
    string_slots.at[i] = ++strings_used;
    return &strings[strings_used - 1];
}

static uint32_t get_string_id(const char *text, size_t n) {
    struct string *s = text && n <= CT_MAX_STRING ? intern_string(text, n) : NULL;
    if (!s)
        return 0;
    if (s->generation != generation) {
        if (put_definition(CT_SECTION_STRINGS, next_string + 1, text, n))
            return 0;
        s->id = ++next_string;
        s->generation = generation;
    }
    return s->id;
}

static __attribute__((noinline)) uint32_t define_name(uint32_t name) {
    const char *text = ct_name_get_text(name);
    if (!text)
        return 0;
    name_ids[name].id = get_string_id(text, strlen(text));
    name_ids[name].generation = generation;
    return name_ids[name].id;
}

static inline uint32_t get_name_id(uint32_t name) {
    return name < CT_NAME_IDS && name_ids[name].generation == generation ? name_ids[name].id
                                                                         : define_name(name);
}

// ---- threads --------------------------------------------------------------------------------

// The name of a thread now; if it has ended, at its first event. Returns its length; 0: it has
// none, or CUTRACE_PRIVATE leaves names out.
static size_t read_thread_name(const struct ct_journal_thread *t, char *name, size_t size) {
    char path[64];
    if (CT_OPTION_NUMBER(PRIVATE))
        return 0;
    ct_print(path, sizeof path, "/proc/self/task/%u/comm", t->tid);
    size_t n = ct_read_file(path, name, size);
    if (n && name[n - 1] == '\n')
        n--;
    if (!n) {
        n = strnlen(t->name, sizeof t->name);
        memcpy(name, t->name, n);
    }
    return n;
}

static __attribute__((noinline)) uint32_t define_thread(uint32_t number) {
    const struct ct_journal_thread *t = ct_ring_thread(number);
    const uint32_t i = number % THREAD_IDS;
    if (!t)
        return 0;
    char name[32] = "";
    const size_t n = read_thread_name(t, name, sizeof name);
    struct payload p;
    struct ct_out o = begin_payload(&p);
    ct_put_varint(&o, t->tid);
    ct_put_varint(&o, n ? get_string_id(name, n) : 0);
    if (put_payload(&p, &o, CT_SECTION_THREADS, next_thread + 1))
        return 0;
    thread_ids[i].number = number;
    thread_ids[i].generation = generation;
    return thread_ids[i].id = ++next_thread;
}

static inline uint32_t get_thread_id(uint32_t number) {
    const uint32_t i = number % THREAD_IDS;
    return thread_ids[i].number == number && thread_ids[i].generation == generation
               ? thread_ids[i].id
               : define_thread(number);
}

// ---- modules and frames ---------------------------------------------------------------------

static uint32_t get_module_id(struct ct_loaded_module *m) {
    if (m && m->file_generation != generation) {
        struct payload p;
        struct ct_out o = begin_payload(&p);
        ct_package_versions_note(m->path, strlen(m->path));
        ct_put_varint(&o, get_string_id(m->path, strlen(m->path)));
        ct_put_varint(&o, m->base);
        ct_put_varint(&o, m->start);
        ct_put_varint(&o, m->end);
        ct_put_text(&o, (const char *)m->build_id, m->build_id_bytes);
        if (put_payload(&p, &o, CT_SECTION_MODULES, next_module + 1))
            return 0;
        m->file_id = ++next_module;
        m->file_generation = generation;
    }
    return m ? m->file_id : 0;
}

static void put_native(struct ct_out *o, const struct ct_frame *f) {
    ct_put_varint(o, CT_FRAME_NATIVE);
    ct_put_varint(o, f->word);
    ct_put_varint(o, get_module_id(f->module));
    ct_put_varint(o, f->module ? f->word - f->module->base : 0);
    ct_put_varint(o, f->state == CT_SYMBOL_FOUND ? get_string_id(f->symbol, f->symbol_bytes) : 0);
    ct_put_varint(o, f->state == CT_SYMBOL_FOUND ? f->symbol_offset : 0);
}

static void put_python(struct ct_out *o, uint64_t word) {
    struct ct_code_name t = {0};
    (void)ct_stack_table_read_code_name(word, &t);
    ct_package_versions_note(t.file, t.file_bytes);
    ct_put_varint(o, CT_FRAME_PYTHON);
    ct_put_varint(o, t.function_bytes ? get_string_id(t.function, t.function_bytes) : 0);
    ct_put_varint(o, t.file_bytes ? get_string_id(t.file, t.file_bytes) : 0);
    ct_put_varint(o, ct_frame_word_line(word));
}

static int define_frame(struct ct_frame *f, uint32_t id) {
    struct payload p;
    struct ct_out o = begin_payload(&p);
    if (ct_frame_word_is_native(f->word)) {
        put_native(&o, f);
    } else if (ct_frame_word_text(f->word)) {
        put_python(&o, f->word);
    } else {
        ct_put_varint(&o, CT_FRAME_END);
        ct_put_varint(&o, ct_frame_word_line(f->word));
    }
    return put_payload(&p, &o, CT_SECTION_FRAMES, id);
}

void ct_dictionary_forget_frames(void) {
    ct_hash_slots_clear(&frame_slots);
    frames_used = frames_resolved_up_to = frames_unresolved = frames_begun_with = 0;
}

static uint32_t hash_word(uint64_t word) {
    return (uint32_t)((word * UINT64_C(0x9E3779B97F4A7C15)) >> 40);
}

static uint32_t hash_of_frame(uint32_t index) {
    return hash_word(frames[index].word);
}

struct ct_frame *ct_dictionary_intern_frame(uint64_t word) {
    if (!frames && !(frames = ct_pages_map(FRAMES * sizeof *frames)))
        return NULL;
    if (ct_hash_slots_reserve(&frame_slots, frames_used, hash_of_frame))
        return NULL;
    uint32_t i = hash_word(word) & (frame_slots.room - 1);
    for (; frame_slots.at[i]; i = (i + 1) & (frame_slots.room - 1))
        if (frames[frame_slots.at[i] - 1].word == word)
            return &frames[frame_slots.at[i] - 1];
    if (frames_used == FRAMES)
        return NULL;
    frame_slots.at[i] = ++frames_used;
    struct ct_frame *f = &frames[frames_used - 1];
    *f = (struct ct_frame){.word = word, .state = CT_SYMBOL_MISSING};
    if (ct_frame_word_is_native(word)) {
        f->module = ct_loaded_modules_find(word - 1);
        f->state = CT_SYMBOL_NEW;
        frames_unresolved++;
    }
    return f;
}

static uint32_t get_frame_id(uint64_t word) {
    struct ct_frame *f = ct_dictionary_intern_frame(word);
    if (!f)
        return 0;
    if (f->generation != generation) {
        if (define_frame(f, next_frame + 1))
            return 0;
        f->id = ++next_frame;
        f->generation = generation;
    }
    return f->id;
}

// ---- stacks ---------------------------------------------------------------------------------

static uint32_t hash_node(uint32_t parent, uint32_t frame) {
    return hash_word((uint64_t)parent << 32 | frame);
}

static uint32_t hash_of_node(uint32_t index) {
    return hash_node(nodes[index].parent, nodes[index].frame);
}

static uint32_t find_node_id(uint32_t parent, uint32_t frame) {
    if (!node_slots.room)
        return 0;
    const uint32_t mask = node_slots.room - 1;
    for (uint32_t i = hash_node(parent, frame) & mask; node_slots.at[i]; i = (i + 1) & mask) {
        const struct node *n = &nodes[node_slots.at[i] - 1];
        if (n->parent == parent && n->frame == frame)
            return n->id;
    }
    return 0;
}

// Keeps a new node. If there is no room, the frames up to it are written again with the next stack.
static void keep_node(uint32_t parent, uint32_t frame, uint32_t id) {
    if ((!nodes && !(nodes = ct_pages_map(NODES * sizeof *nodes))) || nodes_used == NODES ||
        ct_hash_slots_reserve(&node_slots, nodes_used, hash_of_node))
        return;
    uint32_t i = hash_node(parent, frame) & (node_slots.room - 1);
    while (node_slots.at[i])
        i = (i + 1) & (node_slots.room - 1);
    nodes[nodes_used] = (struct node){parent, frame, id};
    node_slots.at[i] = ++nodes_used;
}

// Defines a stack of these frames, outermost first: the nodes that the tree lacks, and the stack,
// which is the last node. Returns 0, or -1.
static int define_branch(const uint32_t *ids, uint32_t n) {
    static uint8_t payload[32 + CT_MAX_STACK * 10];
    struct ct_out o = {payload, payload + sizeof payload, 0};
    uint32_t parent = 0, have = 0, before = 0;
    for (uint32_t next; have < n && (next = find_node_id(parent, ids[have])); have++)
        parent = next;
    ct_put_varint(&o, parent);
    ct_put_varint(&o, n - have);
    if (have < n)
        ct_put_varint(&o, next_node + 1);
    for (uint32_t i = have; i < n; i++) {
        ct_put_varint(&o, ct_zigzag((uint64_t)ids[i] - before));
        before = ids[i];
    }
    if (o.bad ||
        put_definition(CT_SECTION_STACKS, next_stack + 1, payload, (size_t)(o.at - payload)))
        return -1;
    for (uint32_t i = have; i < n; i++) {
        keep_node(parent, ids[i], ++next_node);
        parent = next_node;
    }
    return 0;
}

static __attribute__((noinline)) uint32_t define_stack(struct ct_stack_entry *e) {
    static uint32_t ids[CT_MAX_STACK];
    const uint32_t n = e->frames;
    for (uint32_t i = 0; i < n && n <= CT_MAX_STACK; i++)
        if (!(ids[n - 1 - i] = get_frame_id(e->frame[i])))
            return 0;
    if (n > CT_MAX_STACK || define_branch(ids, n))
        return 0;
    e->file_generation = generation;
    return e->file_id = ++next_stack;
}

static __attribute__((noinline)) uint32_t define_or_drop_stack(struct ct_stack_entry *e) {
    const uint32_t id = define_stack(e);
    stacks_dropped += !id;
    return id;
}

static inline uint32_t get_stack_id(uint32_t stack) {
    struct ct_stack_entry *e = ct_stack_table_get(stack);
    if (!e)
        return 0;
    return e->file_generation == generation ? e->file_id : define_or_drop_stack(e);
}

uint32_t ct_dictionary_find_stack(uint32_t stack) {
    const struct ct_stack_entry *e = ct_stack_table_get(stack);
    if (!e)
        return 0;
    return e->file_generation == generation ? e->file_id : CT_DIGEST_NO_ID;
}

uint64_t ct_dictionary_count_dropped_stacks(void) {
    return stacks_dropped;
}

// ---- events ---------------------------------------------------------------------------------

void ct_dictionary_map(struct ct_event *e) {
#define MAP(field, to)                                  \
    if (CT_HAS(e, field) && !(e->field = to(e->field))) \
        e->present &= ~CT_BIT(field);
    MAP(thread, get_thread_id)
    MAP(api, get_name_id)
    MAP(text, get_name_id)
    MAP(domain, get_name_id)
    MAP(category, get_name_id)
    MAP(stack, get_stack_id)
#undef MAP
}

void ct_dictionary_prefetch(const struct ct_event *e) {
    __asm__ volatile(""); // gcc 12 drops calls of functions that only prefetch
    if (CT_HAS(e, stack))
        __builtin_prefetch(ct_stack_table_get(e->stack));
}

// ---- symbols --------------------------------------------------------------------------------

size_t ct_dictionary_count_unresolved(void) {
    return frames_unresolved;
}

int ct_dictionary_has_unmapped_frames(void) {
    for (uint32_t i = frames_resolved_up_to; i < frames_used; i++)
        if (frames[i].state == CT_SYMBOL_NEW && !frames[i].module)
            return 1;
    return 0;
}

void ct_dictionary_begin_resolving(void) {
    frames_begun_with = frames_used;
}

struct ct_loaded_module *ct_dictionary_next_unloaded_module(size_t *n) {
    for (; *n < frames_used; ++*n) {
        const struct ct_frame *f = &frames[*n];
        if (ct_frame_awaits_table(f))
            return f->module;
    }
    return NULL;
}

// Looks up the frame's symbol in the table of its module.
static void resolve_frame(struct ct_frame *f) {
    static char name[CT_ELF_SYMBOLS_MAX_NAME + 1];
    const size_t n = f->module->symbols
                         ? ct_elf_symbols_find(f->module->symbols, f->word - 1 - f->module->base,
                                               name, &f->symbol_offset)
                         : 0;
    const struct string *s = n ? intern_string(name, n) : NULL;
    f->state = s ? CT_SYMBOL_FOUND : CT_SYMBOL_MISSING;
    if (s) {
        f->symbol = s->text;
        f->symbol_bytes = s->bytes;
        f->symbol_offset++; // the look-up was for pc - 1
    }
}

void ct_dictionary_resolve_frames(int final) {
    for (uint32_t i = frames_resolved_up_to; i < frames_used; i++) {
        struct ct_frame *f = &frames[i];
        if (f->state != CT_SYMBOL_NEW)
            continue;
        struct ct_loaded_module *const before = f->module;
        if (!f->module)
            f->module = ct_loaded_modules_find(f->word - 1);
        if (f->module && (f->module->symbols || f->module->no_symbols))
            resolve_frame(f);
        else if (final && i < frames_begun_with)
            f->state = CT_SYMBOL_MISSING;
        if (f->state != CT_SYMBOL_NEW)
            frames_unresolved--;
        if (f->generation == generation && (f->state == CT_SYMBOL_FOUND || f->module != before))
            (void)define_frame(f, f->id);
        if (ct_open_chunk_blocks_left() < CT_OPEN_CHUNK_RESERVE_BLOCKS)
            break; // the rest goes into the next chunk
    }
    while (frames_resolved_up_to < frames_used &&
           frames[frames_resolved_up_to].state != CT_SYMBOL_NEW)
        frames_resolved_up_to++;
    for (size_t i = 0; ct_loaded_modules_get(i); i++)
        if (ct_loaded_modules_get(i)->symbols)
            ct_elf_symbols_close_file(ct_loaded_modules_get(i)->symbols);
}

void ct_dictionary_reinit_child(void) {
    // Another thread of the parent may have been writing to the tables: start with new memory.
    const uint32_t next = generation + 1;
    strings = NULL;
    string_texts = (struct ct_arena){.bytes = string_texts.bytes};
    frames = NULL;
    nodes = NULL;
    string_slots = frame_slots = node_slots = (struct ct_hash_slots){NULL, 0};
    memset(thread_ids, 0, sizeof thread_ids);
    strings_used = frames_used = frames_resolved_up_to = frames_unresolved = frames_begun_with = 0;
    stacks_dropped = 0;
    generation = next - 1;
    ct_dictionary_begin_generation();
}
