// SPDX-License-Identifier: Apache-2.0
// Dictionaries of a trace: everything is kept once by content, ids of a generation are mapped to it.
#include "read/definitions.h"

enum {
    MAX_DEFINITIONS = 1 << 24, // of a kind, in a generation
    LOW_IDS = 1 << 18,
};

struct ct_arena {
    struct ct_arena *before;
    size_t used, size;
    char bytes[];
};

static const char *keep(struct ct_names *n, const void *bytes, size_t size) {
    struct ct_arena *a = n->arena;
    if (!a || a->size - a->used < size) {
        const size_t room = size > 65536 ? size : 65536;
        a = ct_resize(NULL, 1, sizeof *a + room);
        *a = (struct ct_arena){.before = n->arena, .size = room};
        n->arena = a;
    }
    char *to = a->bytes + a->used;
    if (size)
        memcpy(to, bytes, size);
    a->used += size;
    return to;
}

// ---- interning --------------------------------------------------------------------------------

static int same_string(const void *owner, uint32_t id, const void *key) {
    const struct ct_string *a = &((const struct ct_names *)owner)->strings[id];
    const struct ct_string *b = key;
    return a->length == b->length && memcmp(a->at, b->at, a->length) == 0;
}

static uint32_t intern_string(struct ct_names *n, const void *bytes, size_t length) {
    const struct ct_string s = {bytes, (uint32_t)length};
    if (!length)
        return 0;
    uint32_t *slot = ct_set_slot(&n->string_set, ct_hash_bytes(bytes, length), same_string, n, &s);
    if (!*slot) {
        CT_GROW(n->strings, n->string_count, n->string_cap);
        n->strings[n->string_count] = (struct ct_string){keep(n, bytes, length), s.length};
        *slot = (uint32_t)n->string_count++;
    }
    return *slot;
}

static int same_module(const void *owner, uint32_t id, const void *key) {
    const struct ct_module *a = &((const struct ct_names *)owner)->modules[id];
    const struct ct_module *b = key;
    return a->path == b->path && a->base == b->base && a->start == b->start && a->end == b->end &&
           a->build_id.length == b->build_id.length &&
           memcmp(a->build_id.at, b->build_id.at, b->build_id.length) == 0;
}

static uint32_t intern_module(struct ct_names *n, const struct ct_module *m) {
    const uint64_t h = ct_mix(m->base * 31 + m->path) ^ m->start;
    uint32_t *slot = ct_set_slot(&n->module_set, ct_mix(h), same_module, n, m);
    if (!*slot) {
        CT_GROW(n->modules, n->module_count, n->module_cap);
        struct ct_module *kept = &n->modules[n->module_count];
        *kept = *m;
        kept->build_id.at = keep(n, m->build_id.at, m->build_id.length);
        *slot = (uint32_t)n->module_count++;
    }
    return *slot;
}

// The identity of a native frame is its pc and what lies there. A writer that does not know the module
// and symbol yet writes the frame without them and again later, so what is unknown fits anything.
static int same_frame(const void *owner, uint32_t id, const void *key) {
    const struct ct_frame *a = &((const struct ct_names *)owner)->frames[id];
    const struct ct_frame *b = key;
    if (a->kind != b->kind)
        return 0;
    if (a->kind != CT_FRAME_NATIVE)
        return a->function == b->function && a->file == b->file && a->line == b->line;
    return a->pc == b->pc &&
           (!a->module || !b->module || (a->module == b->module && a->offset == b->offset));
}

static void learn(struct ct_frame *known, const struct ct_frame *f) {
    if (f->module) {
        known->module = f->module;
        known->offset = f->offset;
    }
    if (f->function) {
        known->function = f->function;
        known->symbol_offset = f->symbol_offset;
    }
    if (!known->place_count) { // (they do not change, and sections are read more than once)
        known->first_place = f->first_place;
        known->place_count = f->place_count;
    }
}

static uint32_t intern_frame(struct ct_names *n, const struct ct_frame *f) {
    const uint64_t h = f->kind == CT_FRAME_NATIVE ? f->pc
                                                  : ((uint64_t)f->function << 32 | f->file) ^
                                                        ct_mix(f->line * 8 + f->kind);
    uint32_t *slot = ct_set_slot(&n->frame_set, ct_mix(h), same_frame, n, f);
    if (!*slot) {
        CT_GROW(n->frames, n->frame_count, n->frame_cap);
        n->frames[n->frame_count] = *f;
        *slot = (uint32_t)n->frame_count++;
    } else if (f->kind == CT_FRAME_NATIVE && !n->complete) {
        learn(&n->frames[*slot], f);
    }
    return *slot;
}

static int same_node(const void *owner, uint32_t id, const void *key) {
    const struct ct_node *a = &((const struct ct_names *)owner)->nodes[id], *b = key;
    return a->parent == b->parent && a->frame == b->frame;
}

static uint32_t intern_node(struct ct_names *n, uint32_t parent, uint32_t frame) {
    const struct ct_node node = {
        .parent = parent, .frame = frame, .depth = n->nodes[parent].depth + 1};
    uint32_t *slot =
        ct_set_slot(&n->node_set, ct_mix((uint64_t)parent << 32 | frame), same_node, n, &node);
    if (!*slot) {
        CT_GROW(n->nodes, n->node_count, n->node_cap);
        n->nodes[n->node_count] = node;
        *slot = (uint32_t)n->node_count++;
    }
    return *slot;
}

static uint32_t stack_of(struct ct_names *n, uint32_t node) {
    if (node && !n->nodes[node].stack) {
        CT_GROW(n->stacks, n->stack_count, n->stack_cap);
        n->stacks[n->stack_count] = node;
        n->nodes[node].stack = (uint32_t)n->stack_count++;
    }
    return n->nodes[node].stack;
}

uint32_t ct_names_thread_stack(struct ct_names *n, uint32_t thread) {
    const struct ct_frame f = {.kind = CT_FRAME_THREAD, .function = n->threads[thread].name};
    return f.function ? stack_of(n, intern_node(n, 0, intern_frame(n, &f))) : 0;
}

// ---- entries of the dictionaries ---------------------------------------------------------------

uint32_t ct_names_any_id(const struct ct_names *n, unsigned kind, uint64_t id) {
    const uint64_t *found = ct_map_get(&n->ids[kind], id);
    return found ? (uint32_t)*found : 0;
}

static uint32_t string_id(const struct ct_names *n, struct ct_in *in) {
    return ct_names_id(n, CT_SECTION_STRINGS, ct_get_varint(in));
}

static uint32_t take_string(struct ct_names *n, struct ct_in *in) {
    const size_t length = (size_t)(in->end - in->at);
    if (length > CT_MAX_STRING) {
        in->bad = 1;
        return 0;
    }
    return intern_string(n, in->at, length);
}

static uint32_t take_module(struct ct_names *n, struct ct_in *in) {
    struct ct_module m = {0};
    m.path = string_id(n, in);
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

static void take_places(struct ct_names *n, struct ct_frame *f, struct ct_in *in) {
    const uint64_t count = ct_get_varint(in);
    const size_t before = n->place_count;
    if (count > CT_MAX_PLACES)
        in->bad = 1;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        CT_GROW(n->places, n->place_count, n->place_cap);
        struct ct_place *p = &n->places[n->place_count++];
        p->function = string_id(n, in);
        p->file = string_id(n, in);
        p->line = ct_get_varint(in);
    }
    f->first_place = (uint32_t)before;
    f->place_count = in->bad ? 0 : (uint32_t)count;
}

// Places that a frame has already are not kept again.
static uint32_t take_native(struct ct_names *n, struct ct_in *in) {
    struct ct_frame f = {.kind = CT_FRAME_NATIVE};
    const size_t places = n->place_count;
    f.pc = ct_get_varint(in);
    f.module = ct_names_id(n, CT_SECTION_MODULES, ct_get_varint(in));
    f.offset = ct_get_varint(in);
    f.function = string_id(n, in);
    f.symbol_offset = ct_get_varint(in);
    if (in->at < in->end && !n->complete) // (in any version: symbolize adds them)
        take_places(n, &f, in);
    const uint32_t id = in->bad ? 0 : intern_frame(n, &f);
    if (!n->complete &&
        (!id || !n->frames[id].place_count || n->frames[id].first_place != f.first_place))
        n->place_count = places;
    return id;
}

static uint32_t take_frame(struct ct_names *n, struct ct_in *in) {
    struct ct_frame f = {0};
    const uint64_t kind = ct_get_varint(in);
    if (kind == CT_FRAME_NATIVE)
        return take_native(n, in);
    f.kind = kind > CT_FRAME_END ? CT_FRAME_LATER : (uint32_t)kind;
    if (kind == CT_FRAME_PYTHON) {
        f.function = string_id(n, in);
        f.file = string_id(n, in);
    }
    if (kind <= CT_FRAME_END)
        f.line = ct_get_varint(in);
    return in->bad ? 0 : intern_frame(n, &f);
}

void ct_names_add_place(struct ct_names *n, uint32_t frame, const char *function, const char *file,
                        uint64_t line) {
    struct ct_frame *f = &n->frames[frame];
    if (!f->place_count)
        f->first_place = (uint32_t)n->place_count;
    CT_GROW(n->places, n->place_count, n->place_cap);
    n->places[n->place_count++] =
        (struct ct_place){function ? intern_string(n, function, strlen(function)) : 0,
                          file ? intern_string(n, file, strlen(file)) : 0, line};
    f->place_count++;
}

// Versions 1 and 2: all frames of a stack, innermost first.
static uint32_t take_flat_stack(struct ct_names *n, struct ct_in *in) {
    uint32_t frames[CT_MAX_STACK], node = 0;
    const uint64_t count = ct_get_varint(in);
    uint64_t id = 0;
    if (count > CT_MAX_STACK)
        in->bad = 1;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        id += ct_unzigzag(ct_get_varint(in));
        frames[i] = ct_names_id(n, CT_SECTION_FRAMES, id);
    }
    if (in->bad)
        return 0;
    for (uint64_t i = count; i-- > 0;)
        node = intern_node(n, node, frames[i]);
    return stack_of(n, node);
}

static void define(struct ct_names *n, unsigned kind, uint64_t id, uint32_t mine) {
    const size_t room = n->low[kind].room;
    if (!id)
        return;
    *ct_map_at(&n->ids[kind], id) = mine;
    if (id >= room && id < LOW_IDS) {
        size_t more = room ? room : 256;
        while (more <= id)
            more *= 2;
        n->low[kind].mine = ct_resize(n->low[kind].mine, more, sizeof mine);
        memset(n->low[kind].mine + room, 0, (more - room) * sizeof mine);
        n->low[kind].room = more;
    }
    if (id < LOW_IDS)
        n->low[kind].mine[id] = mine;
}

// A branch of the tree: its frames, outermost first, grow from a node that is there. Where that is not known (its chunk was
// lost), from an unknown frame.
static uint32_t take_stack(struct ct_names *n, struct ct_in *in) {
    const uint64_t parent = ct_get_varint(in), count = ct_get_varint(in);
    uint64_t number = count ? ct_get_varint(in) : 0, frame = 0;
    uint32_t node = ct_names_id(n, CT_IDS_OF_NODES, parent);
    if (parent && !node)
        node = intern_node(n, 0, 0);
    if (count > CT_MAX_STACK - n->nodes[node].depth ||
        n->ids[CT_IDS_OF_NODES].count + count > MAX_DEFINITIONS)
        in->bad = 1;
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        frame += ct_unzigzag(ct_get_varint(in));
        if (in->bad)
            return 0;
        node = intern_node(n, node, ct_names_id(n, CT_SECTION_FRAMES, frame));
        define(n, CT_IDS_OF_NODES, number++, node);
    }
    return in->bad ? 0 : stack_of(n, node);
}

static uint32_t take_thread(struct ct_names *n, struct ct_in *in) {
    const uint64_t tid = ct_get_varint(in);
    const uint32_t name = string_id(n, in);
    if (in->bad)
        return 0;
    uint64_t *id = ct_map_at(&n->thread_ids, tid);
    if (!*id) {
        CT_GROW(n->threads, n->thread_count, n->thread_cap);
        n->threads[n->thread_count] = (struct ct_ring_thread){tid, 0};
        *id = n->thread_count++;
    }
    if (name && !n->complete)
        n->threads[*id].name = name;
    return (uint32_t)*id;
}

static int take_info(struct ct_names *n, struct ct_in in) {
    while (in.at < in.end && !in.bad) {
        uint32_t pair[2];
        for (int i = 0; i < 2; i++) {
            const uint64_t length = ct_get_varint(&in);
            const uint8_t *text = ct_get_bytes(&in, length);
            if (!text || length > CT_MAX_STRING)
                return -1;
            pair[i] = intern_string(n, text, (size_t)length);
        }
        uint64_t *at = ct_map_at(&n->fact_ids, pair[0]);
        if (!*at) {
            CT_GROW(n->facts, n->fact_count, n->fact_cap);
            n->facts[n->fact_count].key = pair[0];
            *at = n->fact_count++;
        }
        n->facts[*at].value = pair[1];
    }
    return in.bad ? -1 : 0;
}

int ct_names_section(struct ct_names *n, unsigned version, unsigned kind, struct ct_in in) {
    if (kind == CT_SECTION_INFO)
        return n->complete ? 0 : take_info(n, in);
    if (kind < CT_SECTION_STRINGS || kind > CT_SECTION_THREADS)
        return 0;
    while (in.at < in.end) {
        const uint64_t id = ct_get_varint(&in);
        struct ct_in entry = ct_get_sub(&in, ct_get_varint(&in));
        if (in.bad || entry.bad || n->ids[kind].count > MAX_DEFINITIONS)
            return -1;
        uint32_t mine = 0;
        switch (kind) {
        case CT_SECTION_STRINGS:
            mine = take_string(n, &entry);
            break;
        case CT_SECTION_MODULES:
            mine = take_module(n, &entry);
            break;
        case CT_SECTION_FRAMES:
            mine = take_frame(n, &entry);
            break;
        case CT_SECTION_STACKS:
            mine = version < 3 ? take_flat_stack(n, &entry) : take_stack(n, &entry);
            break;
        case CT_SECTION_THREADS:
            mine = take_thread(n, &entry);
            break;
        }
        if (entry.bad)
            return -1;
        define(n, kind, id, mine);
    }
    return 0;
}

void ct_names_complete(struct ct_names *n) {
    n->defined_stacks = n->stack_count - 1;
    for (size_t i = 1; i < n->thread_count; i++)
        (void)ct_names_thread_stack(n, (uint32_t)i);
    n->complete = 1;
}

// ---- life and look-up ---------------------------------------------------------------------------

void ct_names_generation(struct ct_names *n, uint64_t dict_seq) {
    if (n->generation == dict_seq)
        return;
    n->generation = dict_seq;
    for (unsigned k = 0; k < CT_IDS; k++) {
        ct_map_clear(&n->ids[k]);
        free(n->low[k].mine);
        n->low[k].mine = NULL;
        n->low[k].room = 0;
    }
}

void ct_names_init(struct ct_names *n) {
    memset(n, 0, sizeof *n);
    n->generation = UINT64_MAX;
    n->strings = ct_zeroed(n->string_cap = 64, sizeof *n->strings);
    n->modules = ct_zeroed(n->module_cap = 16, sizeof *n->modules);
    n->frames = ct_zeroed(n->frame_cap = 64, sizeof *n->frames);
    n->nodes = ct_zeroed(n->node_cap = 64, sizeof *n->nodes);
    n->stacks = ct_zeroed(n->stack_cap = 64, sizeof *n->stacks);
    n->threads = ct_zeroed(n->thread_cap = 16, sizeof *n->threads);
    n->facts = ct_zeroed(n->fact_cap = 16, sizeof *n->facts);
    n->string_count = n->module_count = n->frame_count = n->node_count = n->stack_count = 1;
    n->thread_count = n->fact_count = 1;
    n->strings[0].at = "";
    n->modules[0].build_id.at = "";
}

void ct_names_free(struct ct_names *n) {
    while (n->arena) {
        struct ct_arena *before = n->arena->before;
        free(n->arena);
        n->arena = before;
    }
    free(n->strings);
    free(n->modules);
    free(n->frames);
    free(n->stacks);
    free(n->threads);
    free(n->facts);
    free(n->places);
    free(n->nodes);
    ct_set_clear(&n->string_set);
    ct_set_clear(&n->module_set);
    ct_set_clear(&n->frame_set);
    ct_set_clear(&n->node_set);
    ct_map_clear(&n->thread_ids);
    ct_map_clear(&n->fact_ids);
    for (unsigned k = 0; k < CT_IDS; k++) {
        ct_map_clear(&n->ids[k]);
        free(n->low[k].mine);
    }
}

const struct ct_string *ct_names_fact(const struct ct_names *n, const char *key) {
    const size_t length = strlen(key);
    for (size_t i = 1; i < n->fact_count; i++) {
        const struct ct_string *k = &n->strings[n->facts[i].key];
        if (k->length == length && memcmp(k->at, key, length) == 0)
            return &n->strings[n->facts[i].value];
    }
    return NULL;
}

int ct_names_number(const struct ct_names *n, const char *key, uint64_t *value) {
    const struct ct_string *s = ct_names_fact(n, key);
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
