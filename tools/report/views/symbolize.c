// SPDX-License-Identifier: Apache-2.0
// symbolize: writes a copy of the trace whose native frames have source lines and inlined
// functions. Chunks without new lines are copied byte for byte, as are the bytes between chunks;
// the others get longer FRAMES entries and the strings of these, and have no digest any more.
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "print/document.h"
#include "read/chunk_build.h"
#include "read/new_file.h"
#include "symbols/line_reader.h"
#include "views/views.h"

// The ids of a dictionary generation.
struct generation {
    uint64_t dict_seq;
    uint64_t last_string;  // highest id of a string
    struct ct_map modules; // id -> module in the trace's names, + 1; UINT64_MAX: ambiguous
};

struct count {
    uint64_t frames, with_lines;
};

struct symbolize {
    struct ct_view *v;
    struct ct_error error;
    struct ct_lines *lines;
    struct generation *generations;
    size_t generation_count, generation_capacity;
    struct ct_map generation_of; // dict_seq -> position in generations, + 1
    struct count *modules;       // by module of the trace's names
    struct ct_new_file out;
    // Of the chunk in work.
    struct generation *generation;
    struct ct_id_set texts; // positions in `new`
    struct text {
        const char *at;
        uint32_t length;
        uint64_t id;
    } * new;
    size_t new_count, new_capacity;
    struct ct_buffer strings, frames, body, chunk;
    int changed;
};

// ---- ids ----------------------------------------------------------------------------------------

static struct generation *find_generation(struct symbolize *s, uint64_t dict_seq) {
    uint64_t *at = ct_map_add(&s->generation_of, dict_seq);
    if (!*at) {
        CT_HEAP_GROW(s->generations, s->generation_count, s->generation_capacity);
        s->generations[s->generation_count] = (struct generation){.dict_seq = dict_seq};
        *at = ++s->generation_count;
    }
    return &s->generations[*at - 1];
}

static void note_module(struct generation *g, uint64_t id, uint32_t module) {
    uint64_t *at = ct_map_add(&g->modules, id);
    if (!*at)
        *at = module + UINT64_C(1);
    else if (*at != module + UINT64_C(1))
        *at = UINT64_MAX;
}

// Notes the ids that a chunk defines.
static void note_ids(struct symbolize *s, const struct ct_chunk *head, const struct ct_in body,
                     enum ct_section wanted) {
    struct ct_definitions *names = &s->v->trace->definitions;
    struct generation *g = find_generation(s, head->dict_seq);
    struct ct_in section, at = body;
    unsigned kind;
    ct_definitions_set_generation(names, head->dict_seq);
    while (ct_section_next(&at, &kind, &section) > 0) {
        if (kind != wanted || ct_definitions_read_section(names, head->version, kind, section))
            continue;
        while (section.at < section.end) {
            const uint64_t id = ct_get_varint(&section);
            (void)ct_get_slice(&section, ct_get_varint(&section));
            if (kind == CT_SECTION_STRINGS)
                g->last_string = id > g->last_string ? id : g->last_string;
            else
                note_module(g, id, ct_definitions_id(names, kind, id));
        }
    }
}

static void note_all_ids(struct symbolize *s) {
    struct ct_trace *t = s->v->trace;
    for (size_t i = 0; i < t->index.count; i++) {
        struct ct_in body;
        if (ct_trace_read_body(t, i, &body))
            continue;
        note_ids(s, &t->index.chunks[i].head, body, CT_SECTION_STRINGS);
        note_ids(s, &t->index.chunks[i].head, body, CT_SECTION_MODULES);
    }
}

// ---- frames -------------------------------------------------------------------------------------

static int is_same_text(const void *owner, uint32_t i, const void *key) {
    const struct text *a = &((const struct symbolize *)owner)->new[i - 1], *b = key;
    return a->length == b->length && memcmp(a->at, b->at, a->length) == 0;
}

// Returns the id of a string, which the chunk in work defines if need be; 0 for no string.
static uint64_t add_string(struct symbolize *s, const char *at) {
    const size_t length = at ? strlen(at) : 0;
    if (!length || length > CT_MAX_STRING)
        return 0;
    const struct text t = {at, (uint32_t)length, s->generation->last_string + 1};
    uint32_t *slot = ct_id_set_slot(&s->texts, ct_hash_bytes(at, length), is_same_text, s, &t);
    if (!*slot) {
        CT_HEAP_GROW(s->new, s->new_count, s->new_capacity);
        s->new[s->new_count] = t;
        *slot = (uint32_t)++s->new_count;
        s->generation->last_string++;
        ct_buffer_append_varint(&s->strings, t.id);
        ct_buffer_append_varint(&s->strings, length);
        ct_buffer_append(&s->strings, at, length);
    }
    return s->new[*slot - 1].id;
}

static size_t look_up_lines(struct symbolize *s, uint64_t module_id, uint64_t offset,
                            const struct ct_dwarf_location **places) {
    const uint64_t *known = ct_map_find(&s->generation->modules, module_id);
    const uint32_t module = known && *known != UINT64_MAX ? (uint32_t)*known - 1 : 0;
    if (!offset || !ct_lines_asks(s->lines, module))
        return 0;
    const size_t found = ct_lines_find(s->lines, module, offset, places);
    s->modules[module].frames++;
    s->modules[module].with_lines += found > 0;
    return found;
}

// Copies the payload of a FRAMES entry and appends its lines. Returns 1 if it has some now and had
// none before.
static int put_lines(struct symbolize *s, struct ct_in payload) {
    const struct ct_dwarf_location *places;
    struct ct_in in = payload;
    ct_buffer_append(&s->frames, payload.at, (size_t)(payload.end - payload.at));
    if (ct_get_varint(&in) != CT_FRAME_NATIVE)
        return 0;
    (void)ct_get_varint(&in); // pc
    const uint64_t module = ct_get_varint(&in), offset = ct_get_varint(&in);
    (void)ct_get_varint(&in); // symbol and its offset
    (void)ct_get_varint(&in);
    const uint8_t *end = in.at;
    if (in.bad || (in.at < in.end && ct_get_varint(&in)))
        return 0; // malformed, or has lines already
    const size_t n = look_up_lines(s, module, offset, &places);
    if (!n)
        return 0;
    s->frames.n -= (size_t)(payload.end - end);
    ct_buffer_append_varint(&s->frames, n);
    for (size_t i = 0; i < n; i++) {
        ct_buffer_append_varint(&s->frames, add_string(s, places[i].function));
        ct_buffer_append_varint(&s->frames, add_string(s, places[i].file));
        ct_buffer_append_varint(&s->frames, places[i].line);
    }
    return 1;
}

// Copies a FRAMES section with longer entries.
static int put_frames(struct symbolize *s, struct ct_in section, struct ct_buffer *to) {
    while (section.at < section.end) {
        const uint64_t id = ct_get_varint(&section);
        const struct ct_in payload = ct_get_slice(&section, ct_get_varint(&section));
        if (section.bad)
            return -1;
        s->frames.n = 0;
        s->changed |= put_lines(s, payload);
        ct_buffer_append_varint(to, id);
        ct_buffer_append_varint(to, s->frames.n);
        ct_buffer_append(to, s->frames.at, s->frames.n);
    }
    return 0;
}

// ---- chunks -------------------------------------------------------------------------------------

// Makes the body of a chunk, with its lines, in s->body. Strings come before the frames that refer
// to them.
static int put_body(struct symbolize *s, struct ct_in body) {
    struct ct_buffer frames = {0}, rest = {0};
    struct ct_in section;
    unsigned kind;
    int bad = 0;
    for (const uint8_t *at = body.at; ct_section_next(&body, &kind, &section) > 0; at = body.at) {
        if (kind != CT_SECTION_FRAMES) {
            ct_buffer_append(&rest, at, (size_t)(body.at - at));
            continue;
        }
        frames.n = 0;
        bad |= put_frames(s, section, &frames);
        ct_chunk_build_section(&rest, kind, frames.at, frames.n);
    }
    s->body.n = 0;
    if (s->strings.n)
        ct_chunk_build_section(&s->body, CT_SECTION_STRINGS, s->strings.at, s->strings.n);
    ct_buffer_append(&s->body, rest.at, rest.n);
    free(frames.at);
    free(rest.at);
    return bad || s->body.n > CT_MAX_BODY ? -1 : 0;
}

// Makes the chunk, with its lines, in s->chunk and returns 1; returns 0 if the chunk stays
// unchanged.
static int make_chunk(struct symbolize *s, size_t i) {
    struct ct_trace *t = s->v->trace;
    const struct ct_index_chunk *c = &t->index.chunks[i];
    struct ct_in body;
    if (c->head.header_bytes != sizeof c->head || ct_trace_read_body(t, i, &body))
        return 0;
    s->generation = find_generation(s, c->head.dict_seq);
    s->strings.n = s->new_count = s->chunk.n = 0;
    s->changed = 0;
    ct_id_set_free(&s->texts);
    if (put_body(s, body) || !s->changed)
        return 0;
    ct_chunk_build_append(&s->chunk, &s->body, c->head);
    return 1;
}

// ---- the file -----------------------------------------------------------------------------------

// Returns the offset after a chunk, its digest and its filler.
static uint64_t end_of(const struct ct_source *source, const struct ct_index_chunk *c,
                       uint64_t most) {
    const uint64_t at = ct_index_end_of(c);
    uint32_t frame[2];
    if (most - at < sizeof frame ||
        ct_source_read(source, at, frame, sizeof frame) != sizeof frame ||
        frame[0] != CT_FILLER_MAGIC || frame[1] >= CT_CHUNK_ALIGN || frame[1] > most - at - 8)
        return at;
    return at + 8 + frame[1];
}

struct chunk_at {
    uint64_t offset;
    size_t chunk;
};

static int compare_offsets(const void *a, const void *b) {
    const struct chunk_at *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// Copies a range of the source: its chunks, and the bytes between them.
static int put_range(struct symbolize *s, const struct chunk_at *order, uint64_t from,
                     uint64_t to) {
    const struct ct_trace *t = s->v->trace;
    uint64_t at = from;
    for (size_t i = 0; i < t->index.count; i++) {
        const struct ct_index_chunk *c = &t->index.chunks[order[i].chunk];
        if (c->offset < at || c->offset >= to)
            continue;
        const uint64_t end = end_of(&t->source, c, to);
        // A chunk without its filler stays unchanged, because the next one must begin at a multiple
        // of 8.
        if (end % CT_CHUNK_ALIGN || !make_chunk(s, order[i].chunk))
            continue;
        if (ct_new_file_copy(&s->out, &t->source, at, c->offset) ||
            ct_new_file_write(&s->out, s->chunk.at, s->chunk.n))
            return -1;
        at = end;
    }
    return ct_new_file_copy(&s->out, &t->source, at, to);
}

// Copies the file up to the place where its journal continues it, then the chunks of the journal.
static int put_all(struct symbolize *s) {
    const struct ct_trace *t = s->v->trace;
    struct chunk_at *order = ct_heap_resize(NULL, t->index.count, sizeof *order);
    for (size_t i = 0; i < t->index.count; i++)
        order[i] = (struct chunk_at){t->index.chunks[i].offset, i};
    qsort(order, t->index.count, sizeof *order, compare_offsets);
    int rc =
        put_range(s, order, 0, t->source.added ? ct_trace_append_offset(t) : t->source.file_bytes);
    if (!rc && t->source.added)
        rc = ct_new_file_align(&s->out) || put_range(s, order, t->source.added_at, t->source.bytes);
    free(order);
    return rc;
}

static int make_file(struct symbolize *s, const char *path) {
    const int rc = ct_new_file_open(&s->out, path) || put_all(s) || ct_new_file_commit(&s->out);
    if (rc)
        s->error = s->out.error;
    return rc;
}

// ---- the command --------------------------------------------------------------------------------

static int is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int check_request(struct symbolize *s) {
    const struct ct_trace *t = s->v->trace;
    const char *name = t->source.name, *output = s->v->options->output;
    if (!output)
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                            "symbolize: name the new trace with --output=FILE");
    if (ct_dwarf_missing())
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                            "symbolize: source lines are not available: %s", ct_dwarf_missing());
    if (is_same_file(name, output))
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                            "%.400s: is the trace itself; name another file", output);
    if (ct_new_file_would_replace(output) && !s->v->options->force)
        return ct_error_set(&s->error, CT_EXIT_USAGE, "%.400s: exists already; --force replaces it",
                            output);
    if (t->journal_found < 0)
        return ct_error_set(&s->error, CT_EXIT_BAD_TRACE, "%s", t->journal_error.text);
    if (t->running)
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                            "%.400s: process %" PRIu32 " is still recording; end it first", name,
                            t->journal.head.pid);
    return 0;
}

// Lists the modules that still have frames without lines, and why.
static void add_modules(struct symbolize *s, struct ct_json *j) {
    const struct ct_definitions *n = &s->v->trace->definitions;
    ct_json_open(j, "modules_without_lines", '[');
    for (size_t i = 1; i < n->module_count; i++) {
        const struct count *c = &s->modules[i];
        if (c->with_lines == c->frames)
            continue;
        const char *why = ct_lines_why_none(s->lines, (uint32_t)i);
        ct_json_open(j, NULL, '{');
        ct_document_add_string(j, "module", &n->strings[n->modules[i].path]);
        ct_json_number(j, "frames", c->frames - c->with_lines);
        if (why)
            ct_json_text(j, "why", why);
        else
            ct_json_null(j, "why");
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

// The same as text.
static void print_modules(struct symbolize *s) {
    const struct ct_definitions *n = &s->v->trace->definitions;
    for (size_t i = 1; i < n->module_count; i++) {
        const struct count *c = &s->modules[i];
        if (c->with_lines == c->frames)
            continue;
        const struct ct_string *path = &n->strings[n->modules[i].path];
        const char *why = ct_lines_why_none(s->lines, (uint32_t)i);
        fprintf(s->v->out, "%8s without: ", ct_human_count(c->frames - c->with_lines).text);
        ct_utf8_print_sanitized(s->v->out, path->at, path->length);
        fprintf(s->v->out, "%s%s\n", why ? ": " : "", why ? why : "");
    }
}

static void print_result(struct symbolize *s) {
    struct ct_view *v = s->v;
    struct ct_json json = {.out = v->out}, *j = &json;
    struct count all = {0};
    for (size_t i = 0; i < v->trace->definitions.module_count; i++) {
        all.frames += s->modules[i].frames;
        all.with_lines += s->modules[i].with_lines;
    }
    if (v->options->json) {
        ct_document_begin_bare(j, v);
        ct_json_text(j, "output", v->options->output);
        ct_json_number(j, "frames", all.frames);
        ct_json_number(j, "frames_with_lines", all.with_lines);
        add_modules(s, j);
        ct_document_end(j);
        return;
    }
    ct_utf8_print_sanitized(v->out, v->options->output, strlen(v->options->output));
    fprintf(v->out, ": lines for %s of %s native frames that had none\n",
            ct_human_count(all.with_lines).text, ct_human_count(all.frames).text);
    print_modules(s);
}

static void free_symbolize(struct symbolize *s) {
    for (size_t i = 0; i < s->generation_count; i++)
        ct_map_free(&s->generations[i].modules);
    ct_map_free(&s->generation_of);
    ct_id_set_free(&s->texts);
    if (s->lines)
        ct_lines_free(s->lines);
    free(s->generations);
    free(s->modules);
    free(s->new);
    free(s->strings.at);
    free(s->frames.at);
    free(s->body.at);
    free(s->chunk.at);
}

int ct_view_symbolize(struct ct_view *v) {
    struct symbolize s = {.v = v};
    int rc = check_request(&s);
    if (!rc) {
        s.lines = ct_lines_read(&v->trace->definitions, &v->options->lines);
        note_all_ids(&s);
        s.modules = ct_heap_alloc_zeroed(v->trace->definitions.module_count, sizeof *s.modules);
        rc = make_file(&s, v->options->output);
    }
    if (rc)
        ct_terminal_warn(s.error.text);
    else
        print_result(&s);
    free_symbolize(&s);
    return rc ? (int)s.error.status : CT_EXIT_OK;
}
