// SPDX-License-Identifier: Apache-2.0
// The dictionaries of the file: what the process's own numbers (names, stacks, threads) are called
// in it.
#include "dictionary.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "memory.h"
#include "names.h"
#include "ring.h"
#include "stacks.h"
#include "text.h"

#define STRINGS (1u << 18) // a power of two; at most three quarters are used
#define FRAMES (1u << 18)  // the same

// One buffer of definitions for each kind of section. A chunk is closed when they hold
// CT_DICTIONARY_FULL together; one event more adds at most a stack of 512 frames, whose names may
// have 8 KiB each.
#define STRINGS_BYTES (CT_DICTIONARY_FULL + (5u << 20))
#define BUFFER_BYTES (CT_DICTIONARY_FULL + (1u << 20))

struct string {
    const char *text;
    uint32_t bytes, hash;
    uint32_t id, generation;
};

enum frame_state { FRAME_NEW, FRAME_NAMED, FRAME_NAMELESS };

struct frame {
    uint64_t pc;
    struct ct_module *module;
    const char *symbol;
    uint32_t symbol_bytes;
    enum frame_state state;
    uint64_t symbol_offset;
    uint32_t id, generation;
};

static uint32_t generation = 1;
static uint32_t next_string, next_module, next_frame, next_stack, next_thread;

static struct string *strings;
static uint32_t strings_used;
static struct ct_arena string_texts = {.bytes = 16u << 20};

static struct frame *frames;
static uint32_t *frame_slots; // index + 1 into frames
static uint32_t frames_used, frames_resolved_up_to, frames_unresolved;

static struct { uint32_t id, generation; } * thread_ids, name_ids[CT_NAME_IDS];

static struct ct_out buffers[CT_SECTION_THREADS + 1];
static uint8_t *buffer_start[CT_SECTION_THREADS + 1];

// ---- buffers --------------------------------------------------------------------------------

static struct ct_out *buffer(enum ct_section kind) {
    if (!buffer_start[kind]) {
        const size_t bytes = kind == CT_SECTION_STRINGS ? STRINGS_BYTES : BUFFER_BYTES;
        buffer_start[kind] = ct_pages(bytes);
        if (!buffer_start[kind])
            return NULL;
        buffers[kind] = (struct ct_out){buffer_start[kind], buffer_start[kind] + bytes, 0};
    }
    return &buffers[kind];
}

// A definition: id and payload, whose length is written in front of it.
// Small, because a host's thread may have a small stack; that of a stack is built elsewhere.
struct payload {
    uint8_t bytes[192];
};

static int define(enum ct_section kind, uint32_t id, const void *payload, size_t n) {
    struct ct_out *o = buffer(kind);
    if (!o || (size_t)(o->end - o->at) < n + 32)
        return -1;
    ct_put_varint(o, id);
    ct_put_text(o, payload, n);
    return 0;
}

static struct ct_out payload_begin(struct payload *p) {
    return (struct ct_out){p->bytes, p->bytes + sizeof p->bytes, 0};
}

static int payload_define(struct payload *p, const struct ct_out *o, enum ct_section kind,
                          uint32_t id) {
    return o->bad ? -1 : define(kind, id, p->bytes, (size_t)(o->at - p->bytes));
}

int ct_dictionary_is_full(void) {
    return strings_used > STRINGS / 2 || frames_used > FRAMES / 4 * 3 ||
           atomic_load(&string_texts.used) > string_texts.bytes / 4 * 3;
}

void ct_dictionary_begin(void) {
    if (ct_dictionary_is_full()) {
        ct_dictionary_forget_frames(); // they point into the strings
        if (strings)
            memset(strings, 0, STRINGS * sizeof *strings);
        strings_used = 0;
        atomic_store(&string_texts.used, 0);
    }
    generation++;
    next_string = next_module = next_frame = next_stack = next_thread = 0;
}

size_t ct_dictionary_pending(void) {
    size_t n = 0;
    for (unsigned k = CT_SECTION_STRINGS; k <= CT_SECTION_THREADS; k++)
        n += (size_t)(buffers[k].at - buffer_start[k]);
    return n;
}

int ct_dictionary_write(struct ct_out *out) {
    for (unsigned k = CT_SECTION_STRINGS; k <= CT_SECTION_THREADS; k++) {
        const size_t n = (size_t)(buffers[k].at - buffer_start[k]);
        if (!n)
            continue;
        uint8_t *length_at = ct_section_begin(out, (enum ct_section)k);
        ct_put_bytes(out, buffer_start[k], n);
        ct_section_end(out, length_at);
        buffers[k].at = buffer_start[k];
    }
    return out->bad ? -1 : 0;
}

// ---- strings --------------------------------------------------------------------------------

static uint32_t hash_text(const char *text, size_t n) {
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001B3);
    return (uint32_t)(h ^ h >> 32);
}

// The kept string with this text, which is copied at its first use; NULL when the table is full.
static struct string *string_of(const char *text, size_t n) {
    if (!strings && !(strings = ct_pages(STRINGS * sizeof *strings)))
        return NULL;
    const uint32_t h = hash_text(text, n);
    for (uint32_t i = h % STRINGS;; i = (i + 1) % STRINGS) {
        struct string *s = &strings[i];
        if (!s->text) {
            if (strings_used >= STRINGS / 4 * 3 ||
                !(s->text = ct_arena_text(&string_texts, text, n)))
                return NULL;
            s->bytes = (uint32_t)n;
            s->hash = h;
            strings_used++;
            return s;
        }
        if (s->hash == h && s->bytes == n && !memcmp(s->text, text, n))
            return s;
    }
}

static uint32_t string_id(const char *text, size_t n) {
    struct string *s = text && n <= CT_MAX_STRING ? string_of(text, n) : NULL;
    if (!s)
        return 0;
    if (s->generation != generation) {
        if (define(CT_SECTION_STRINGS, next_string + 1, text, n))
            return 0;
        s->id = ++next_string;
        s->generation = generation;
    }
    return s->id;
}

uint32_t ct_dictionary_name(uint32_t name) {
    const char *text = ct_name_text(name);
    if (!text)
        return 0;
    if (name_ids[name].generation != generation) {
        name_ids[name].id = string_id(text, strlen(text));
        name_ids[name].generation = generation;
    }
    return name_ids[name].id;
}

// ---- threads --------------------------------------------------------------------------------

// The name that the thread has now; the one that it had at its first event if it is gone.
static size_t thread_name(const struct ct_thread *t, char *name, size_t size) {
    char path[64];
    ct_print(path, sizeof path, "/proc/self/task/%u/comm", t->tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, name, size);
    if (fd >= 0)
        close(fd);
    if (n > 0 && name[n - 1] == '\n')
        n--;
    if (n <= 0) {
        n = (ssize_t)strnlen(t->name, sizeof t->name);
        memcpy(name, t->name, (size_t)n);
    }
    return (size_t)n;
}

uint32_t ct_dictionary_thread(uint32_t number) {
    const struct ct_thread *t = ct_thread(number);
    if (!t || number >= CT_THREADS ||
        (!thread_ids && !(thread_ids = ct_pages(CT_THREADS * sizeof *thread_ids))))
        return 0;
    if (thread_ids[number].generation != generation) {
        char name[32];
        struct payload p;
        struct ct_out o = payload_begin(&p);
        ct_put_varint(&o, t->tid);
        ct_put_varint(&o, string_id(name, thread_name(t, name, sizeof name)));
        if (payload_define(&p, &o, CT_SECTION_THREADS, next_thread + 1))
            return 0;
        thread_ids[number].id = ++next_thread;
        thread_ids[number].generation = generation;
    }
    return thread_ids[number].id;
}

// ---- modules and frames ---------------------------------------------------------------------

static uint32_t module_id(struct ct_module *m) {
    if (m && m->file_generation != generation) {
        struct payload p;
        struct ct_out o = payload_begin(&p);
        ct_put_varint(&o, string_id(m->path, strlen(m->path)));
        ct_put_varint(&o, m->base);
        ct_put_varint(&o, m->start);
        ct_put_varint(&o, m->end);
        ct_put_text(&o, (const char *)m->build_id, m->build_id_bytes);
        if (payload_define(&p, &o, CT_SECTION_MODULES, next_module + 1))
            return 0;
        m->file_id = ++next_module;
        m->file_generation = generation;
    }
    return m ? m->file_id : 0;
}

static int frame_define(struct frame *f, uint32_t id) {
    struct payload p;
    struct ct_out o = payload_begin(&p);
    ct_put_varint(&o, CT_FRAME_NATIVE);
    ct_put_varint(&o, f->pc);
    ct_put_varint(&o, module_id(f->module));
    ct_put_varint(&o, f->module ? f->pc - f->module->base : 0);
    ct_put_varint(&o, f->state == FRAME_NAMED ? string_id(f->symbol, f->symbol_bytes) : 0);
    ct_put_varint(&o, f->state == FRAME_NAMED ? f->symbol_offset : 0);
    return payload_define(&p, &o, CT_SECTION_FRAMES, id);
}

void ct_dictionary_forget_frames(void) {
    if (frame_slots)
        memset(frame_slots, 0, 2 * FRAMES * sizeof *frame_slots);
    frames_used = frames_resolved_up_to = frames_unresolved = 0;
}

static struct frame *frame_of(uint64_t pc) {
    if (!frames && !(frames = ct_pages(FRAMES * sizeof *frames)))
        return NULL;
    if (!frame_slots && !(frame_slots = ct_pages(2 * FRAMES * sizeof *frame_slots)))
        return NULL;
    uint32_t i = (uint32_t)((pc * UINT64_C(0x9E3779B97F4A7C15)) >> 40) % (2 * FRAMES);
    for (; frame_slots[i]; i = (i + 1) % (2 * FRAMES))
        if (frames[frame_slots[i] - 1].pc == pc)
            return &frames[frame_slots[i] - 1];
    if (frames_used == FRAMES)
        return NULL;
    frame_slots[i] = ++frames_used;
    frames_unresolved++;
    frames[frames_used - 1] = (struct frame){.pc = pc, .module = ct_module_of(pc - 1)};
    return &frames[frames_used - 1];
}

static uint32_t frame_id(uint64_t pc) {
    struct frame *f = frame_of(pc);
    if (!f)
        return 0;
    if (f->generation != generation) {
        if (frame_define(f, next_frame + 1))
            return 0;
        f->id = ++next_frame;
        f->generation = generation;
    }
    return f->id;
}

uint32_t ct_dictionary_stack(uint32_t stack) {
    struct ct_stack_entry *e = ct_stack_entry(stack);
    if (!e)
        return 0;
    if (e->file_generation != generation) {
        static uint8_t payload[16 + CT_MAX_STACK * 10];
        struct ct_out o = {payload, payload + sizeof payload, 0};
        uint32_t before = 0;
        ct_put_varint(&o, e->frames);
        for (uint32_t i = 0; i < e->frames; i++) {
            const uint32_t id = frame_id(e->frame[i]);
            if (!id)
                return 0;
            ct_put_varint(&o, ct_zigzag((uint64_t)id - before));
            before = id;
        }
        if (o.bad || define(CT_SECTION_STACKS, next_stack + 1, payload, (size_t)(o.at - payload)))
            return 0;
        e->file_id = ++next_stack;
        e->file_generation = generation;
    }
    return e->file_id;
}

// ---- symbols --------------------------------------------------------------------------------

size_t ct_dictionary_unresolved(void) {
    return frames_unresolved;
}

int ct_dictionary_lost_frames(void) {
    for (uint32_t i = frames_resolved_up_to; i < frames_used; i++)
        if (frames[i].state == FRAME_NEW && !frames[i].module)
            return 1;
    return 0;
}

struct ct_module *ct_dictionary_wants(size_t *n) {
    for (; *n < frames_used; ++*n) {
        const struct frame *f = &frames[*n];
        if (f->state == FRAME_NEW && f->module && !f->module->symbols && !f->module->no_symbols)
            return f->module;
    }
    return NULL;
}

// A name for the frame, from its module's table.
static void frame_resolve(struct frame *f) {
    static char name[CT_SYMBOL_MAX + 1];
    const size_t n = f->module->symbols
                         ? ct_symbols_find(f->module->symbols, f->pc - 1 - f->module->base, name,
                                           &f->symbol_offset)
                         : 0;
    const struct string *s = n ? string_of(name, n) : NULL;
    f->state = s ? FRAME_NAMED : FRAME_NAMELESS;
    if (s) {
        f->symbol = s->text;
        f->symbol_bytes = s->bytes;
        f->symbol_offset++; // from pc, not from pc - 1
    }
}

void ct_dictionary_resolve(int final) {
    for (uint32_t i = frames_resolved_up_to; i < frames_used; i++) {
        struct frame *f = &frames[i];
        if (f->state != FRAME_NEW)
            continue;
        struct ct_module *const before = f->module;
        if (!f->module)
            f->module = ct_module_of(f->pc - 1);
        if (f->module && (f->module->symbols || f->module->no_symbols))
            frame_resolve(f);
        else if (final)
            f->state = FRAME_NAMELESS;
        if (f->state != FRAME_NEW)
            frames_unresolved--;
        if (f->generation == generation && (f->state == FRAME_NAMED || f->module != before))
            (void)frame_define(f, f->id);
        if (ct_dictionary_pending() > CT_DICTIONARY_FULL)
            break; // the rest in the next chunk
    }
    while (frames_resolved_up_to < frames_used && frames[frames_resolved_up_to].state != FRAME_NEW)
        frames_resolved_up_to++;
    for (size_t i = 0; ct_module_at(i); i++)
        if (ct_module_at(i)->symbols)
            ct_symbols_rest(ct_module_at(i)->symbols);
}

// ---- for people -----------------------------------------------------------------------------

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// CUDA's own libraries lie between every caller and the driver: they say nothing about who asked.
static int is_cuda(const char *path) {
    const char *base = base_name(path);
    return !strncmp(base, "libcuda", 7) || !strncmp(base, "libcutrace", 10);
}

// The frame that asked, as far as modules are known.
static const struct frame *caller(uint32_t stack) {
    const struct ct_stack_entry *e = ct_stack_entry(stack);
    for (uint32_t i = 0; e && i < e->frames; i++) {
        const struct frame *f = frame_of(e->frame[i]);
        if (f && f->module && *f->module->path && !is_cuda(f->module->path))
            return f;
    }
    return NULL;
}

size_t ct_dictionary_caller(uint32_t stack, char *out, size_t size) {
    const struct frame *f = caller(stack);
    if (!f)
        return 0;
    if (f->state == FRAME_NAMED)
        return ct_print(out, size, "%.*s", (int)f->symbol_bytes, f->symbol);
    return ct_print(out, size, "%s+0x%lx", base_name(f->module->path), f->pc - f->module->base);
}

struct ct_module *ct_dictionary_caller_wants(uint32_t stack) {
    const struct frame *f = caller(stack);
    return f && f->state == FRAME_NEW && !f->module->symbols && !f->module->no_symbols ? f->module
                                                                                       : NULL;
}

void ct_dictionary_forked(void) {
    // Whatever was being written when the process was copied: start from nothing, in new memory.
    const uint32_t next = generation + 1;
    memset(buffers, 0, sizeof buffers);
    memset(buffer_start, 0, sizeof buffer_start);
    strings = NULL;
    string_texts = (struct ct_arena){.bytes = string_texts.bytes};
    frames = NULL;
    frame_slots = NULL;
    thread_ids = NULL;
    strings_used = frames_used = frames_resolved_up_to = frames_unresolved = 0;
    generation = next - 1;
    ct_dictionary_begin();
}
