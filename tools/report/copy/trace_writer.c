// SPDX-License-Identifier: Apache-2.0
// Ids of the file are given out in the order in which events refer to things.
#include "copy/trace_writer.h"

#include <cutrace/format/assert.h>

#include "read/chunk_build.h"

#define EVENTS 32768u          // of a chunk
#define OBJECTS 32768u         // of a part of a checkpoint
#define DEFINITIONS (8u << 20) // bytes of definitions after which a chunk ends
#define TICK_NS 100u           // what recorders write

// ---- chunks -------------------------------------------------------------------------------------

static int add_room(void *user, unsigned column, struct ct_out *out) {
    struct ct_trace_writer *w = user;
    const size_t used = out->at ? (size_t)(out->at - w->column[column]) : 0;
    if (!out->at && w->column[column]) { // of an earlier section
        out->at = w->column[column];
        out->end = out->at + w->column_bytes[column];
        return 0;
    }
    w->column_bytes[column] = w->column_bytes[column] * 2 + 4096;
    w->column[column] = ct_heap_resize(w->column[column], w->column_bytes[column], 1);
    out->at = w->column[column] + used;
    out->end = w->column[column] + w->column_bytes[column];
    return 0;
}

static int is_whole_ticks(const struct ct_event *events, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (CT_HAS(&events[i], duration_ns) && events[i].duration_ns % TICK_NS)
            return 0;
    return 1;
}

// Appends the content of an EVENTS section. Nothing is rounded: a time that is no multiple of the
// tick is written exactly, and durations choose the tick.
static void append_columns(struct ct_trace_writer *w, struct ct_buffer *to,
                           const struct ct_event *events, size_t n) {
    struct ct_encoder *c = &w->encoder;
    ct_encoder_begin(c, w->encoder_memory, is_whole_ticks(events, n) ? TICK_NS : 1);
    for (size_t i = 0; i < n; i++) {
        const int is_rounded =
            i + 1 < n && events[i].t_ns % TICK_NS == 0 && events[i + 1].t_ns > events[i].t_ns;
        c->next_ns = is_rounded ? events[i + 1].t_ns : 0;
        (void)ct_encoder_put(c, &events[i]);
    }
    ct_buffer_append_varint(to, n);
    for (unsigned i = 0; i < CT_COLUMNS && n; i++) {
        if (!c->stream[i].at)
            continue;
        const size_t bytes = (size_t)(c->stream[i].at - w->column[i]);
        struct ct_out o = {ct_buffer_reserve(to, CT_COLUMN_HEAD_BYTES + 10), NULL, 0};
        o.end = o.at + CT_COLUMN_HEAD_BYTES + 10;
        ct_encoder_put_column_head(&o, i, (uint32_t)bytes);
        to->n = (size_t)(o.at - to->at);
        ct_buffer_append(to, w->column[i], bytes);
    }
}

static void append_history(struct ct_trace_writer *w, const struct ct_history *history) {
    struct ct_buffer section = {0};
    struct ct_out o = {ct_buffer_reserve(&section, CT_HISTORY_BYTES), NULL, 0};
    o.end = o.at + CT_HISTORY_BYTES;
    ct_history_encode(history, &o);
    if (!o.bad)
        ct_chunk_build_section(&w->body, CT_SECTION_HISTORY, section.at,
                               (size_t)(o.at - section.at));
    free(section.at);
}

static void append_events(struct ct_trace_writer *w, struct ct_chunk *head) {
    struct ct_buffer section = {0};
    if (!w->event_count)
        return;
    append_columns(w, &section, w->events, w->event_count);
    ct_chunk_build_section(&w->body, CT_SECTION_EVENTS, section.at, section.n);
    free(section.at);
    head->events = (uint32_t)w->event_count;
    head->t_first_ns = w->events[0].t_ns;
    head->t_last_ns = w->events[w->event_count - 1].t_ns;
    if (w->end_ns > head->t_last_ns)
        head->t_last_ns = w->end_ns;
    w->event_count = 0;
}

// Writes the chunk unchanged; `checkpoint` is the content of its CHECKPOINT section, or NULL.
static void end_chunk(struct ct_trace_writer *w, const struct ct_buffer *checkpoint) {
    struct ct_chunk head = {.version = CT_FORMAT_VERSION,
                            .flags = w->flags,
                            .seq = w->seq,
                            .dict_seq = w->dict_seq,
                            .first_event = w->first_event,
                            .trace_id = w->trace_id};
    w->body.n = w->chunk.n = 0;
    if ((w->begins || !w->chunks) && w->info.n)
        ct_chunk_build_section(&w->body, CT_SECTION_INFO, w->info.at, w->info.n);
    for (unsigned k = CT_SECTION_STRINGS; k <= CT_SECTION_THREADS; k++) {
        if (w->defined[k].n)
            ct_chunk_build_section(&w->body, k, w->defined[k].at, w->defined[k].n);
        w->defined[k].n = 0;
    }
    if (checkpoint)
        ct_chunk_build_section(&w->body, CT_SECTION_CHECKPOINT, checkpoint->at, checkpoint->n);
    if (w->begins && w->history)
        append_history(w, w->history);
    append_events(w, &head);
    CT_ASSERT(w->body.n <= CT_MAX_BODY);
    ct_chunk_build_append(&w->chunk, &w->body, head);
    if (!w->failed && w->put(w->user, w->chunk.at, w->chunk.n))
        w->failed = 1;
    w->seq++;
    w->first_event += head.events;
    w->chunks++;
    w->flags = 0;
    w->begins = 0;
}

// ---- definitions --------------------------------------------------------------------------------

// Adds an entry to a dictionary; returns its id.
static uint32_t define(struct ct_trace_writer *w, unsigned kind, const struct ct_buffer *payload) {
    size_t bytes = payload->n;
    for (unsigned k = CT_SECTION_STRINGS; k <= CT_SECTION_THREADS; k++)
        bytes += w->defined[k].n;
    if (bytes > DEFINITIONS)
        end_chunk(w, NULL);
    ct_buffer_append_varint(&w->defined[kind], ++w->last[kind]);
    ct_buffer_append_varint(&w->defined[kind], payload->n);
    ct_buffer_append(&w->defined[kind], payload->at, payload->n);
    return w->last[kind];
}

static int is_same_text(const void *owner, uint32_t id, const void *key) {
    const struct ct_string *a = &((const struct ct_trace_writer *)owner)->text[id - 1], *b = key;
    return a->length == b->length && memcmp(a->at, b->at, a->length) == 0;
}

static uint32_t define_text(struct ct_trace_writer *w, const struct ct_string *s) {
    uint32_t *id = ct_id_set_slot(&w->texts, ct_hash_bytes(s->at, s->length), is_same_text, w, s);
    if (*id)
        return *id;
    CT_HEAP_GROW(w->text, w->text_count, w->text_capacity);
    char *copy = ct_heap_resize(NULL, s->length, 1);
    if (s->length)
        memcpy(copy, s->at, s->length);
    w->text[w->text_count++] = (struct ct_string){copy, s->length};
    *id = (uint32_t)w->text_count;
    const struct ct_buffer payload = {(uint8_t *)copy, s->length, s->length};
    (void)define(w, CT_SECTION_STRINGS, &payload);
    return (uint32_t)w->text_count;
}

// A name's id in the file. A function may have another name in another frame.
static uint32_t put_name(struct ct_trace_writer *w, enum ct_name_role role, uint32_t string,
                         const struct ct_frame *frame) {
    if (!string)
        return 0;
    if (!w->rename)
        return define_text(w, &w->names->strings[string]);
    const struct ct_string name =
        w->rename(w->rename_user, role, frame, &w->names->strings[string]);
    return define_text(w, &name);
}

static uint32_t put_module(struct ct_trace_writer *w, uint32_t module) {
    uint32_t *id = &w->ids[CT_SECTION_MODULES][module];
    struct ct_buffer p = {0};
    if (*id || !module)
        return *id;
    const struct ct_defined_module *m = &w->names->modules[module];
    ct_buffer_append_varint(&p, put_name(w, CT_NAME_FILE, m->path, NULL));
    ct_buffer_append_varint(&p, m->base);
    ct_buffer_append_varint(&p, m->start);
    ct_buffer_append_varint(&p, m->end);
    ct_buffer_append_varint(&p, m->build_id.length);
    ct_buffer_append(&p, m->build_id.at, m->build_id.length);
    *id = define(w, CT_SECTION_MODULES, &p);
    free(p.at);
    return *id;
}

static void append_native_frame(struct ct_trace_writer *w, const struct ct_frame *f,
                                struct ct_buffer *p) {
    ct_buffer_append_varint(p, f->pc);
    ct_buffer_append_varint(p, put_module(w, f->module));
    ct_buffer_append_varint(p, f->offset);
    ct_buffer_append_varint(p, put_name(w, CT_NAME_FUNCTION, f->function, f));
    ct_buffer_append_varint(p, f->symbol_offset);
    if (!f->location_count)
        return;
    ct_buffer_append_varint(p, f->location_count);
    for (uint32_t i = 0; i < f->location_count; i++) {
        const struct ct_source_location *at = &w->names->locations[f->first_location + i];
        ct_buffer_append_varint(p, put_name(w, CT_NAME_FUNCTION, at->function, f));
        ct_buffer_append_varint(p, put_name(w, CT_NAME_FILE, at->file, NULL));
        ct_buffer_append_varint(p, at->line);
    }
}

static uint32_t put_frame(struct ct_trace_writer *w, uint32_t frame) {
    uint32_t *id = &w->ids[CT_SECTION_FRAMES][frame];
    const struct ct_frame *f = &w->names->frames[frame];
    struct ct_buffer p = {0};
    if (*id || !frame)
        return *id;
    ct_buffer_append_varint(&p, f->kind);
    if (f->kind == CT_FRAME_NATIVE) {
        append_native_frame(w, f, &p);
    } else if (f->kind == CT_FRAME_PYTHON) {
        ct_buffer_append_varint(&p, put_name(w, CT_NAME_FUNCTION, f->function, f));
        ct_buffer_append_varint(&p, put_name(w, CT_NAME_FILE, f->file, NULL));
        ct_buffer_append_varint(&p, f->line);
    } else if (f->kind == CT_FRAME_END) {
        ct_buffer_append_varint(&p, f->line);
    }
    *id = define(w, CT_SECTION_FRAMES, &p);
    free(p.at);
    return *id;
}

// Defines the nodes of a stack that are new, from the outermost one inwards.
static uint32_t put_stack(struct ct_trace_writer *w, uint32_t stack) {
    static uint32_t new[CT_MAX_STACK];
    uint32_t *id = &w->ids[CT_SECTION_STACKS][stack], *nodes = w->ids[CT_ID_NODES];
    uint32_t node = w->names->stacks[stack], n = 0;
    struct ct_buffer p = {0};
    if (*id || !stack)
        return *id;
    for (; node && !nodes[node] && n < CT_MAX_STACK; node = w->names->nodes[node].parent)
        new[n++] = node;
    for (uint32_t i = n; i-- > 0;) // before the payload, which a chunk may end in between
        (void)put_frame(w, w->names->nodes[new[i]].frame);
    ct_buffer_append_varint(&p, node ? nodes[node] : 0);
    ct_buffer_append_varint(&p, n);
    if (n)
        ct_buffer_append_varint(&p, w->last[CT_ID_NODES] + 1);
    uint64_t last = 0;
    for (uint32_t i = n; i-- > 0;) {
        const uint64_t frame = put_frame(w, w->names->nodes[new[i]].frame);
        ct_buffer_append_varint(&p, ct_zigzag(frame - last));
        last = frame;
        nodes[new[i]] = ++w->last[CT_ID_NODES];
    }
    *id = define(w, CT_SECTION_STACKS, &p);
    free(p.at);
    return *id;
}

static uint32_t put_thread(struct ct_trace_writer *w, uint32_t thread) {
    uint32_t *id = &w->ids[CT_SECTION_THREADS][thread];
    struct ct_buffer p = {0};
    if (*id || !thread)
        return *id;
    ct_buffer_append_varint(&p, w->names->threads[thread].tid);
    ct_buffer_append_varint(&p, put_name(w, CT_NAME_THREAD, w->names->threads[thread].name, NULL));
    *id = define(w, CT_SECTION_THREADS, &p);
    free(p.at);
    return *id;
}

// Whether a stack is one that the reader made, of the thread's name; the next reader makes it
// again.
static int is_made_of_thread(const struct ct_trace_writer *w, uint32_t stack) {
    const struct ct_call_tree_node *node = ct_definitions_stack_node(w->names, stack);
    return w->names->frames[node->frame].kind == CT_FRAME_THREAD;
}

// The ids of an event become those of the file.
static void put_ids(struct ct_trace_writer *w, struct ct_event *e) {
    if (CT_HAS(e, thread))
        e->thread = put_thread(w, e->thread);
    if (CT_HAS(e, api))
        e->api = put_name(w, CT_NAME_API, e->api, NULL);
    if (CT_HAS(e, text))
        e->text = put_name(w, CT_NAME_NOTE, e->text, NULL);
    if (CT_HAS(e, domain))
        e->domain = put_name(w, CT_NAME_NOTE, e->domain, NULL);
    if (CT_HAS(e, category))
        e->category = put_name(w, CT_NAME_NOTE, e->category, NULL);
    if (CT_HAS(e, stack) && e->stack && is_made_of_thread(w, e->stack))
        e->present &= ~CT_BIT(stack);
    if (CT_HAS(e, stack))
        e->stack = put_stack(w, e->stack);
}

// ---- a trace ------------------------------------------------------------------------------------

static size_t count_of(const struct ct_definitions *n, unsigned kind) {
    switch (kind) {
    case CT_SECTION_MODULES:
        return n->module_count;
    case CT_SECTION_FRAMES:
        return n->frame_count;
    case CT_SECTION_STACKS:
        return n->stack_count;
    case CT_SECTION_THREADS:
        return n->thread_count;
    case CT_ID_NODES:
        return n->node_count;
    default:
        return 0;
    }
}

static void forget_texts(struct ct_trace_writer *w) {
    for (size_t i = 0; i < w->text_count; i++)
        free((char *)w->text[i].at);
    w->text_count = 0;
    ct_id_set_free(&w->texts);
}

void ct_trace_writer_begin(struct ct_trace_writer *w) {
    w->events = ct_heap_resize(NULL, EVENTS, sizeof *w->events);
    w->encoder_memory = ct_heap_resize(NULL, ct_encoder_memory_bytes(), 1);
    w->encoder.room = add_room;
    w->encoder.user = w;
}

void ct_trace_writer_begin_run(struct ct_trace_writer *w, int gap, uint64_t number, int restart,
                               const struct ct_history *history) {
    if (w->event_count || w->begins)
        end_chunk(w, NULL);
    for (unsigned k = 0; k < CT_ID_KINDS; k++) {
        free(w->ids[k]);
        w->ids[k] = ct_heap_alloc_zeroed(count_of(w->names, k), sizeof *w->ids[k]);
        w->last[k] = 0;
    }
    for (unsigned k = CT_SECTION_STRINGS; k <= CT_SECTION_THREADS; k++)
        w->defined[k].n = 0; // nothing refers to them
    forget_texts(w);
    w->dict_seq = w->seq += (uint64_t)gap;
    w->first_event = number;
    w->flags = restart ? CT_CHUNK_RESTART : 0;
    w->begins = restart;
    w->history = history;
}

void ct_trace_writer_put_object(struct ct_trace_writer *w, const struct ct_event *object) {
    if (w->event_count)
        end_chunk(w, NULL);
    CT_HEAP_GROW(w->objects, w->object_count, w->object_capacity);
    struct ct_event *e = &w->objects[w->object_count++];
    *e = *object;
    put_ids(w, e);
}

void ct_trace_writer_end_part(struct ct_trace_writer *w, unsigned flags) {
    if (w->event_count)
        end_chunk(w, NULL);
    size_t at = 0;
    do {
        const size_t left = w->object_count - at, n = left < OBJECTS ? left : OBJECTS;
        struct ct_buffer section = {0};
        ct_buffer_append_varint(&section, (at ? flags & ~(unsigned)CT_CHECKPOINT_FIRST : flags) &
                                              ~(n < left ? (unsigned)CT_CHECKPOINT_LAST : 0u));
        append_columns(w, &section, w->objects + at, n);
        end_chunk(w, &section);
        free(section.at);
        at += n;
    } while (at < w->object_count);
    w->object_count = 0;
}

void ct_trace_writer_put_event(struct ct_trace_writer *w, const struct ct_event *event) {
    struct ct_event e = *event;
    if (w->event_count == EVENTS)
        end_chunk(w, NULL);
    put_ids(w, &e);
    w->events[w->event_count++] = e;
}

int ct_trace_writer_end(struct ct_trace_writer *w, unsigned flags, uint64_t end_ns) {
    w->flags |= flags;
    w->end_ns = end_ns;
    end_chunk(w, NULL);
    return w->failed ? -1 : 0;
}

void ct_trace_writer_free(struct ct_trace_writer *w) {
    forget_texts(w);
    for (unsigned k = 0; k < CT_ID_KINDS; k++)
        free(w->ids[k]);
    for (unsigned k = 0; k <= CT_SECTION_THREADS; k++)
        free(w->defined[k].at);
    for (unsigned i = 0; i < CT_COLUMNS; i++)
        free(w->column[i]);
    free(w->text);
    free(w->events);
    free(w->objects);
    free(w->encoder_memory);
    free(w->body.at);
    free(w->chunk.at);
    free(w->info.at);
}

void ct_trace_writer_add_info(struct ct_buffer *info, struct ct_string key,
                              struct ct_string value) {
    ct_buffer_append_varint(info, key.length);
    ct_buffer_append(info, key.at, key.length);
    ct_buffer_append_varint(info, value.length);
    ct_buffer_append(info, value.at, value.length);
}
