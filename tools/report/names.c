// SPDX-License-Identifier: Apache-2.0
// Dictionaries of a trace: everything is kept once by content, ids of a generation are mapped to it.
#include "names.h"

enum { MAX_DEFINITIONS = 1 << 24 }; // of a kind, in a generation

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
    if (a->kind == CT_FRAME_PYTHON)
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
}

static uint32_t intern_frame(struct ct_names *n, const struct ct_frame *f) {
    const uint64_t h = f->kind == CT_FRAME_PYTHON
                           ? ((uint64_t)f->function << 32 | f->file) ^ ct_mix(f->line)
                           : f->pc;
    uint32_t *slot = ct_set_slot(&n->frame_set, ct_mix(h), same_frame, n, f);
    if (!*slot) {
        CT_GROW(n->frames, n->frame_count, n->frame_cap);
        n->frames[n->frame_count] = *f;
        *slot = (uint32_t)n->frame_count++;
    } else if (f->kind == CT_FRAME_NATIVE) {
        learn(&n->frames[*slot], f);
    }
    return *slot;
}

struct stack_key {
    const uint32_t *frames;
    uint32_t count;
};

static int same_stack(const void *owner, uint32_t id, const void *key) {
    const struct ct_names *n = owner;
    const struct ct_stack *a = &n->stacks[id];
    const struct stack_key *b = key;
    return a->count == b->count &&
           memcmp(n->stack_frames + a->first, b->frames, a->count * sizeof *b->frames) == 0;
}

static uint32_t intern_stack(struct ct_names *n, const uint32_t *frames, uint32_t count) {
    const struct stack_key key = {frames, count};
    if (!count)
        return 0;
    uint32_t *slot = ct_set_slot(&n->stack_set, ct_hash_bytes(frames, count * sizeof *frames),
                                 same_stack, n, &key);
    if (!*slot) {
        CT_GROW(n->stacks, n->stack_count, n->stack_cap);
        n->stacks[n->stack_count] = (struct ct_stack){n->stack_frame_count, count};
        *slot = (uint32_t)n->stack_count++;
        for (uint32_t i = 0; i < count; i++) {
            CT_GROW(n->stack_frames, n->stack_frame_count, n->stack_frame_cap);
            n->stack_frames[n->stack_frame_count++] = frames[i];
        }
    }
    return *slot;
}

// ---- entries of the dictionaries ---------------------------------------------------------------

uint32_t ct_names_id(const struct ct_names *n, enum ct_section kind, uint64_t id) {
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

static uint32_t take_frame(struct ct_names *n, struct ct_in *in) {
    struct ct_frame f = {0};
    const uint64_t kind = ct_get_varint(in);
    f.kind = kind > CT_FRAME_PYTHON ? 2 : (uint32_t)kind; // 2: of a later version, has no name
    if (kind == CT_FRAME_NATIVE) {
        f.pc = ct_get_varint(in);
        f.module = ct_names_id(n, CT_SECTION_MODULES, ct_get_varint(in));
        f.offset = ct_get_varint(in);
        f.function = string_id(n, in);
        f.symbol_offset = ct_get_varint(in);
    } else if (kind == CT_FRAME_PYTHON) {
        f.function = string_id(n, in);
        f.file = string_id(n, in);
        f.line = ct_get_varint(in);
    }
    return in->bad ? 0 : intern_frame(n, &f);
}

static uint32_t take_stack(struct ct_names *n, struct ct_in *in) {
    uint32_t frames[CT_MAX_STACK];
    const uint64_t count = ct_get_varint(in);
    uint64_t id = 0;
    if (count > CT_MAX_STACK) {
        in->bad = 1;
        return 0;
    }
    for (uint64_t i = 0; i < count && !in->bad; i++) {
        id += ct_unzigzag(ct_get_varint(in));
        frames[i] = ct_names_id(n, CT_SECTION_FRAMES, id);
    }
    return in->bad ? 0 : intern_stack(n, frames, (uint32_t)count);
}

static uint32_t take_thread(struct ct_names *n, struct ct_in *in) {
    const uint64_t tid = ct_get_varint(in);
    const uint32_t name = string_id(n, in);
    if (in->bad)
        return 0;
    uint64_t *id = ct_map_at(&n->thread_ids, tid);
    if (!*id) {
        CT_GROW(n->threads, n->thread_count, n->thread_cap);
        n->threads[n->thread_count] = (struct ct_thread){tid, 0};
        *id = n->thread_count++;
    }
    if (name)
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

int ct_names_section(struct ct_names *n, unsigned kind, struct ct_in in) {
    if (kind == CT_SECTION_INFO)
        return take_info(n, in);
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
            mine = take_stack(n, &entry);
            break;
        case CT_SECTION_THREADS:
            mine = take_thread(n, &entry);
            break;
        }
        if (entry.bad)
            return -1;
        if (id)
            *ct_map_at(&n->ids[kind], id) = mine;
    }
    return 0;
}

// ---- life and look-up ---------------------------------------------------------------------------

void ct_names_generation(struct ct_names *n, uint64_t dict_seq) {
    if (n->generation == dict_seq)
        return;
    n->generation = dict_seq;
    for (unsigned k = 0; k <= CT_SECTION_THREADS; k++)
        ct_map_clear(&n->ids[k]);
}

void ct_names_init(struct ct_names *n) {
    memset(n, 0, sizeof *n);
    n->generation = UINT64_MAX;
    n->strings = ct_zeroed(n->string_cap = 64, sizeof *n->strings);
    n->modules = ct_zeroed(n->module_cap = 16, sizeof *n->modules);
    n->frames = ct_zeroed(n->frame_cap = 64, sizeof *n->frames);
    n->stacks = ct_zeroed(n->stack_cap = 64, sizeof *n->stacks);
    n->threads = ct_zeroed(n->thread_cap = 16, sizeof *n->threads);
    n->facts = ct_zeroed(n->fact_cap = 16, sizeof *n->facts);
    n->string_count = n->module_count = n->frame_count = n->stack_count = 1;
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
    free(n->stack_frames);
    ct_set_clear(&n->string_set);
    ct_set_clear(&n->module_set);
    ct_set_clear(&n->frame_set);
    ct_set_clear(&n->stack_set);
    ct_map_clear(&n->thread_ids);
    ct_map_clear(&n->fact_ids);
    for (unsigned k = 0; k <= CT_SECTION_THREADS; k++)
        ct_map_clear(&n->ids[k]);
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
