// SPDX-License-Identifier: Apache-2.0
// Encodes dictionary entries from the journal's tables. Every number and offset in them is checked.
#include "read/journal_definitions.h"

#include <cutrace/format/assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "read/chunk_build.h"

#define MODULES_MAX 4096u
#define TEXT_MAX 8192u

static void read_modules(struct ct_journal_definitions *d) {
    const struct ct_journal *h = &d->j->head;
    uint32_t n = h->modules < h->modules_room ? h->modules : h->modules_room;
    n = n < MODULES_MAX ? n : MODULES_MAX;
    d->modules = ct_heap_resize(NULL, n, sizeof *d->modules);
    d->module_count =
        (uint32_t)(ct_source_read(&d->j->file, h->modules_at, d->modules, n * sizeof *d->modules) /
                   sizeof *d->modules);
}

void ct_journal_definitions_init(struct ct_journal_definitions *d,
                                 const struct ct_journal_contents *j) {
    *d = (struct ct_journal_definitions){.j = j};
    read_modules(d);
}

void ct_journal_definitions_free(struct ct_journal_definitions *d) {
    for (unsigned k = 0; k <= CT_SECTION_THREADS; k++) {
        ct_map_free(&d->ids[k]);
        free(d->section[k].at);
    }
    ct_map_free(&d->nodes);
    ct_map_free(&d->texts);
    free(d->modules);
}

// ---- entries ------------------------------------------------------------------------------------

// Appends an entry with the next id.
static void define(struct ct_journal_definitions *d, unsigned kind, const struct ct_out *payload,
                   const uint8_t *start) {
    const size_t n = (size_t)(payload->at - start);
    struct ct_buffer *b = &d->section[kind];
    struct ct_out o = {ct_buffer_reserve(b, n + 32), NULL, 0};
    o.end = o.at + n + 32;
    ct_put_varint(&o, ++d->last_id[kind]);
    ct_put_text(&o, (const char *)start, n);
    b->n = (size_t)(o.at - b->at);
}

static uint32_t define_string(struct ct_journal_definitions *d, const char *text, size_t n) {
    uint8_t *start = (uint8_t *)(uintptr_t)text;
    const struct ct_out payload = {start + n, start + n, 0};
    if (!n)
        return 0;
    define(d, CT_SECTION_STRINGS, &payload, start);
    return d->last_id[CT_SECTION_STRINGS];
}

// Defines the NUL-terminated string at an offset of the journal. It ends after `limit` bytes at the
// latest, with its table.
static uint32_t define_string_at(struct ct_journal_definitions *d, uint64_t offset,
                                 uint64_t limit) {
    char text[TEXT_MAX];
    const size_t n = ct_source_read(&d->j->file, offset, text,
                                    limit < sizeof text ? (size_t)limit : sizeof text);
    return define_string(d, text, strnlen(text, n));
}

uint32_t ct_journal_definitions_name(struct ct_journal_definitions *d, uint32_t number) {
    const struct ct_journal *h = &d->j->head;
    uint64_t *id = ct_map_add(&d->ids[CT_SECTION_STRINGS], number);
    uint32_t at = 0;
    if (*id)
        return (uint32_t)*id - 1;
    *id = 1;
    if (!number || number >= h->names ||
        ct_source_read(&d->j->file, h->names_at + (uint64_t)number * 4, &at, 4) != 4 || !at ||
        at >= h->texts_bytes)
        return 0;
    const uint32_t string = define_string_at(d, h->texts_at + at, h->texts_bytes - at);
    *id = string + UINT64_C(1);
    return string;
}

uint32_t ct_journal_definitions_thread(struct ct_journal_definitions *d, uint32_t number) {
    const struct ct_journal *h = &d->j->head;
    uint64_t *id = ct_map_add(&d->ids[CT_SECTION_THREADS], number);
    struct ct_journal_thread t;
    uint8_t payload[32];
    if (*id)
        return (uint32_t)*id - 1;
    *id = 1;
    if (!number || !h->threads ||
        ct_source_read(&d->j->file, h->threads_at + number % h->threads * sizeof t, &t, sizeof t) !=
            sizeof t ||
        t.number != number)
        return 0;
    struct ct_out o = {payload, payload + sizeof payload, 0};
    ct_put_varint(&o, t.tid);
    ct_put_varint(&o, define_string(d, t.name, strnlen(t.name, sizeof t.name)));
    define(d, CT_SECTION_THREADS, &o, payload);
    *id = d->last_id[CT_SECTION_THREADS] + UINT64_C(1);
    return d->last_id[CT_SECTION_THREADS];
}

static uint32_t define_module(struct ct_journal_definitions *d, uint32_t i) {
    const struct ct_journal *h = &d->j->head;
    const struct ct_journal_module *m = &d->modules[i];
    uint64_t *id = ct_map_add(&d->ids[CT_SECTION_MODULES], i);
    uint8_t payload[64 + sizeof m->build_id];
    if (*id)
        return (uint32_t)*id - 1;
    uint32_t path = 0;
    if (m->path < h->module_texts_bytes)
        path = define_string_at(d, h->module_texts_at + m->path, h->module_texts_bytes - m->path);
    struct ct_out o = {payload, payload + sizeof payload, 0};
    ct_put_varint(&o, path);
    ct_put_varint(&o, m->base);
    ct_put_varint(&o, m->start);
    ct_put_varint(&o, m->end);
    ct_put_text(&o, (const char *)m->build_id,
                m->build_id_bytes <= sizeof m->build_id ? m->build_id_bytes : 0);
    define(d, CT_SECTION_MODULES, &o, payload);
    *id = d->last_id[CT_SECTION_MODULES] + UINT64_C(1);
    return d->last_id[CT_SECTION_MODULES];
}

// Reads the words of an entry in the table of stacks: the frames of a stack, or a text. Returns
// their number, 0 if the entry is malformed.
static uint32_t read_words(struct ct_journal_definitions *d, uint32_t number, uint64_t *words,
                           uint32_t limit) {
    const struct ct_journal *h = &d->j->head;
    struct ct_journal_stack s;
    const uint64_t at = (uint64_t)number * 8,
                   words_at = at + offsetof(struct ct_journal_stack, frame);
    if (!number || words_at > h->stacks_bytes ||
        ct_source_read(&d->j->file, h->stacks_at + at, &s, sizeof s) != sizeof s || !s.hash ||
        s.frames > limit || (d->stack_words += 3 + s.frames) > h->stacks_bytes / 8 ||
        s.frames * UINT64_C(8) > h->stacks_bytes - words_at ||
        ct_source_read(&d->j->file, h->stacks_at + words_at, words, s.frames * 8) != s.frames * 8)
        return 0;
    return s.frames;
}

// Defines the two names of a text, the function and file of a Python frame. Returns function << 32
// | file.
static uint64_t define_text(struct ct_journal_definitions *d, uint32_t number) {
    uint64_t words[1 + (2 * CT_CODE_NAME_MAX_BYTES + 7) / 8] = {0};
    const uint64_t *known = ct_map_find(&d->texts, number);
    if (known)
        return *known;
    struct ct_code_name t;
    uint64_t id = 0;
    if (!ct_code_name_parse(words, read_words(d, number, words, sizeof words / sizeof *words),
                            &t)) {
        id = (uint64_t)define_string(d, t.function, t.function_bytes) << 32;
        id |= define_string(d, t.file, t.file_bytes);
    }
    *ct_map_add(&d->texts, number) = id;
    return id;
}

static void encode_native_frame(struct ct_journal_definitions *d, struct ct_out *o, uint64_t pc) {
    uint32_t module = 0;
    uint64_t base = pc;
    for (uint32_t i = d->module_count; i-- > 0;) // the newest module at an address counts
        if (pc - 1 >= d->modules[i].start && pc - 1 < d->modules[i].end) {
            module = define_module(d, i);
            base = d->modules[i].base;
            break;
        }
    ct_put_varint(o, CT_FRAME_NATIVE);
    ct_put_varint(o, pc);
    ct_put_varint(o, module);
    ct_put_varint(o, pc - base);
    ct_put_varint(o, 0); // only the process itself could look up symbols
    ct_put_varint(o, 0);
}

static uint32_t define_frame(struct ct_journal_definitions *d, uint64_t word) {
    uint64_t *id = ct_map_add(&d->ids[CT_SECTION_FRAMES], word);
    uint8_t payload[64];
    if (*id)
        return (uint32_t)*id - 1;
    *id = d->last_id[CT_SECTION_FRAMES] + UINT64_C(2);
    struct ct_out o = {payload, payload + sizeof payload, 0};
    if (ct_frame_word_is_native(word)) {
        encode_native_frame(d, &o, word);
    } else if (ct_frame_word_text(word)) {
        const uint64_t text = define_text(d, ct_frame_word_text(word));
        ct_put_varint(&o, CT_FRAME_PYTHON);
        ct_put_varint(&o, text >> 32);
        ct_put_varint(&o, (uint32_t)text);
        ct_put_varint(&o, ct_frame_word_line(word));
    } else {
        ct_put_varint(&o, CT_FRAME_END);
        ct_put_varint(&o, ct_frame_word_line(word));
    }
    define(d, CT_SECTION_FRAMES, &o, payload);
    return d->last_id[CT_SECTION_FRAMES];
}

// Defines a stack by its frames, outermost first: those that the call tree does not have yet, below
// the node of the others.
static void define_stack(struct ct_journal_definitions *d, const uint32_t *frames, uint32_t n) {
    uint8_t payload[32 + CT_MAX_STACK * 10];
    struct ct_out o = {payload, payload + sizeof payload, 0};
    uint64_t parent = 0, before = 0;
    uint32_t have = 0;
    for (const uint64_t *known; have < n; have++, parent = *known)
        if (!(known = ct_map_find(&d->nodes, parent << 32 | frames[have])))
            break;
    ct_put_varint(&o, parent);
    ct_put_varint(&o, n - have);
    if (have < n)
        ct_put_varint(&o, d->last_node + 1u);
    for (uint32_t i = have; i < n; i++) {
        ct_put_varint(&o, ct_zigzag(frames[i] - before));
        before = frames[i];
        *ct_map_add(&d->nodes, parent << 32 | frames[i]) = ++d->last_node;
        parent = d->last_node;
    }
    CT_ASSERT(!o.bad);
    define(d, CT_SECTION_STACKS, &o, payload);
}

uint32_t ct_journal_definitions_stack(struct ct_journal_definitions *d, uint32_t number) {
    uint64_t words[CT_MAX_STACK];
    uint32_t frames[CT_MAX_STACK];
    const uint64_t *known = ct_map_find(&d->ids[CT_SECTION_STACKS], number);
    if (known)
        return (uint32_t)*known - 1;
    *ct_map_add(&d->ids[CT_SECTION_STACKS], number) = 1;
    const uint32_t n = read_words(d, number, words, CT_MAX_STACK);
    if (!n)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        frames[n - 1 - i] = define_frame(d, words[i]);
    define_stack(d, frames, n);
    *ct_map_add(&d->ids[CT_SECTION_STACKS], number) = d->last_id[CT_SECTION_STACKS] + UINT64_C(1);
    return d->last_id[CT_SECTION_STACKS];
}

// ---- sections -----------------------------------------------------------------------------------

size_t ct_journal_definitions_bytes(const struct ct_journal_definitions *d) {
    size_t n = 0;
    for (unsigned k = 0; k <= CT_SECTION_THREADS; k++)
        n += d->section[k].n;
    return n;
}

void ct_journal_definitions_flush(struct ct_journal_definitions *d, struct ct_buffer *body) {
    for (unsigned k = CT_SECTION_STRINGS; k <= CT_SECTION_THREADS; k++)
        if (d->section[k].n) {
            ct_chunk_build_section(body, k, d->section[k].at, d->section[k].n);
            d->section[k].n = 0;
        }
}
