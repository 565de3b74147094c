// SPDX-License-Identifier: Apache-2.0
// symbolize: a copy of the trace whose native frames say where in the source they are. Chunks that learn nothing are copied byte for
// byte, as is all that is no chunk; the others get longer FRAMES entries and the strings that these name.
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "read/chunk_build.h"
#include "read/new_file.h"
#include "symbols/source_locations.h"
#include "views/common.h"

// What the ids of a dictionary generation mean, as far as it matters here.
struct generation {
    uint64_t dict_seq;
    uint64_t strings;      // highest id of a string
    struct ct_map modules; // id -> module in the trace's names, + 1; 0: has had two meanings
};

struct count {
    uint64_t frames, with_lines;
};

struct symbolize {
    struct ct_view *v;
    struct ct_error error;
    struct ct_dwarf *lines;
    struct generation *generations;
    size_t generation_count, generation_capacity;
    struct ct_map generation_of; // dict_seq -> place in generations, + 1
    struct count *modules;       // by module of the trace's names
    struct ct_new_file out;
    // of the chunk in work
    struct generation *generation;
    struct ct_id_set texts; // of this chunk: places in `new`
    struct text {
        const char *at;
        uint32_t length;
        uint64_t id;
    } * new;
    size_t new_count, new_capacity;
    struct ct_buffer strings, frames, body, chunk;
    int changed;
};

// ---- what ids mean ----------------------------------------------------------------------------------

static struct generation *generation(struct symbolize *s, uint64_t dict_seq) {
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
    *at = *at && *at != module + UINT64_C(1) ? UINT64_MAX : module + UINT64_C(1);
}

// Notes the ids that a chunk defines.
static void note_ids(struct symbolize *s, const struct ct_chunk *head, const struct ct_in body,
                     enum ct_section wanted) {
    struct ct_definitions *names = &s->v->trace->definitions;
    struct generation *g = generation(s, head->dict_seq);
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
                g->strings = id > g->strings ? id : g->strings;
            else
                note_module(g, id, ct_definitions_id(names, kind, id));
        }
    }
}

static void note_all(struct symbolize *s) {
    struct ct_trace *t = s->v->trace;
    for (size_t i = 0; i < t->index.count; i++) {
        struct ct_in body;
        if (ct_trace_read_body(t, i, &body))
            continue;
        note_ids(s, &t->index.chunks[i].head, body, CT_SECTION_STRINGS);
        note_ids(s, &t->index.chunks[i].head, body, CT_SECTION_MODULES);
    }
}

// ---- frames -----------------------------------------------------------------------------------------

static int same_text(const void *owner, uint32_t i, const void *key) {
    const struct text *a = &((const struct symbolize *)owner)->new[i - 1], *b = key;
    return a->length == b->length && memcmp(a->at, b->at, a->length) == 0;
}

// Id of a string in the chunk in work, which defines it; 0 for none.
static uint64_t string_id(struct symbolize *s, const char *at) {
    const size_t length = at ? strlen(at) : 0;
    if (!length || length > CT_MAX_STRING)
        return 0;
    const struct text t = {at, (uint32_t)length, s->generation->strings + 1};
    uint32_t *slot = ct_id_set_slot(&s->texts, ct_hash_bytes(at, length), same_text, s, &t);
    if (!*slot) {
        CT_HEAP_GROW(s->new, s->new_count, s->new_capacity);
        s->new[s->new_count] = t;
        *slot = (uint32_t)++s->new_count;
        s->generation->strings++;
        ct_buffer_append_varint(&s->strings, t.id);
        ct_buffer_append_varint(&s->strings, length);
        ct_buffer_append(&s->strings, at, length);
    }
    return s->new[*slot - 1].id;
}

static struct ct_dwarf_file *file_of(const struct symbolize *s, size_t module) {
    struct ct_debug_module wanted;
    char path[CT_PATH_MAX];
    return ct_source_locations_module(&s->v->trace->definitions, (uint32_t)module, path, &wanted)
               ? ct_dwarf_file(s->lines, &wanted)
               : NULL;
}

static size_t look_up(struct symbolize *s, uint64_t module_id, uint64_t offset,
                      const struct ct_dwarf_location **places) {
    const uint64_t *known = ct_map_find(&s->generation->modules, module_id);
    const size_t module = known && *known != UINT64_MAX ? (size_t)*known - 1 : 0;
    struct ct_dwarf_file *file = file_of(s, module);
    if (!file || !offset)
        return 0;
    // The pc is a return address; as with the symbol, what counts is the instruction before it.
    const size_t found = ct_dwarf_find_locations(s->lines, file, offset - 1, places);
    s->modules[module].frames++;
    s->modules[module].with_lines += found > 0;
    return found;
}

// An entry's payload, with what is known of it behind. 1: it has more than before.
static int put_places(struct symbolize *s, struct ct_in payload) {
    const struct ct_dwarf_location *places;
    struct ct_in in = payload;
    ct_buffer_append(&s->frames, payload.at, (size_t)(payload.end - payload.at));
    if (ct_get_varint(&in) != CT_FRAME_NATIVE)
        return 0;
    (void)ct_get_varint(&in); // pc
    const uint64_t module = ct_get_varint(&in), offset = ct_get_varint(&in);
    (void)ct_get_varint(&in); // symbol and its offset
    (void)ct_get_varint(&in);
    const uint8_t *behind = in.at;
    if (in.bad || (in.at < in.end && ct_get_varint(&in)))
        return 0; // malformed, or has places already
    const size_t n = look_up(s, module, offset, &places);
    if (!n)
        return 0;
    s->frames.n -= (size_t)(payload.end - behind);
    ct_buffer_append_varint(&s->frames, n);
    for (size_t i = 0; i < n; i++) {
        ct_buffer_append_varint(&s->frames, string_id(s, places[i].function));
        ct_buffer_append_varint(&s->frames, string_id(s, places[i].file));
        ct_buffer_append_varint(&s->frames, places[i].line);
    }
    return 1;
}

// A FRAMES section with longer entries.
static int put_frames(struct symbolize *s, struct ct_in section, struct ct_buffer *to) {
    while (section.at < section.end) {
        const uint64_t id = ct_get_varint(&section);
        const struct ct_in payload = ct_get_slice(&section, ct_get_varint(&section));
        if (section.bad)
            return -1;
        s->frames.n = 0;
        s->changed |= put_places(s, payload);
        ct_buffer_append_varint(to, id);
        ct_buffer_append_varint(to, s->frames.n);
        ct_buffer_append(to, s->frames.at, s->frames.n);
    }
    return 0;
}

// ---- chunks -----------------------------------------------------------------------------------------

// The body of a chunk with its lines in s->body, if it has some; strings come before what names them.
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

// The chunk with its lines: 1, and it is in s->chunk; 0: it stays as it is.
static int make_chunk(struct symbolize *s, size_t i) {
    struct ct_trace *t = s->v->trace;
    const struct ct_index_chunk *c = &t->index.chunks[i];
    struct ct_in body;
    if (c->head.header_bytes != sizeof c->head || ct_trace_read_body(t, i, &body))
        return 0;
    s->generation = generation(s, c->head.dict_seq);
    s->strings.n = s->new_count = s->chunk.n = 0;
    s->changed = 0;
    ct_id_set_free(&s->texts);
    if (put_body(s, body) || !s->changed)
        return 0;
    ct_chunk_build_append(&s->chunk, &s->body, c->head);
    return 1;
}

// ---- the file ---------------------------------------------------------------------------------------

// Behind a chunk and its filler.
static uint64_t end_of(const struct ct_source *source, const struct ct_index_chunk *c, uint64_t most) {
    const uint64_t at = c->body + c->head.body_bytes;
    uint32_t frame[2];
    if (most - at < sizeof frame ||
        ct_source_read(source, at, frame, sizeof frame) != sizeof frame ||
        frame[0] != CT_FILLER_MAGIC || frame[1] >= CT_CHUNK_ALIGN || frame[1] > most - at - 8)
        return at;
    return at + 8 + frame[1];
}

struct placed {
    uint64_t offset;
    size_t chunk;
};

static int by_offset(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// A part of the source: its chunks, and what lies between them.
static int put_part(struct symbolize *s, const struct placed *order, uint64_t from, uint64_t to) {
    const struct ct_trace *t = s->v->trace;
    uint64_t at = from;
    for (size_t i = 0; i < t->index.count; i++) {
        const struct ct_index_chunk *c = &t->index.chunks[order[i].chunk];
        if (c->offset < at || c->offset >= to)
            continue;
        const uint64_t end = end_of(&t->source, c, to);
        // (one without its filler would leave what follows at another place than a multiple of 8)
        if (end % CT_CHUNK_ALIGN || !make_chunk(s, order[i].chunk))
            continue;
        if (ct_new_file_copy(&s->out, &t->source, at, c->offset) ||
            ct_new_file_write(&s->out, s->chunk.at, s->chunk.n))
            return -1;
        at = end;
    }
    return ct_new_file_copy(&s->out, &t->source, at, to);
}

// The file up to where its journal goes on, then what the journal has.
static int put_all(struct symbolize *s) {
    const struct ct_trace *t = s->v->trace;
    struct placed *order = ct_heap_resize(NULL, t->index.count, sizeof *order);
    for (size_t i = 0; i < t->index.count; i++)
        order[i] = (struct placed){t->index.chunks[i].offset, i};
    qsort(order, t->index.count, sizeof *order, by_offset);
    int rc = put_part(s, order, 0, t->source.added ? ct_trace_append_offset(t) : t->source.file_bytes);
    if (!rc && t->source.added)
        rc = ct_new_file_align(&s->out) || put_part(s, order, t->source.added_at, t->source.bytes);
    free(order);
    return rc;
}

static int make_file(struct symbolize *s, const char *path) {
    const int rc = ct_new_file_open(&s->out, path) || put_all(s) || ct_new_file_commit(&s->out);
    if (rc)
        s->error = s->out.error;
    return rc;
}

// ---- the command ------------------------------------------------------------------------------------

static int same_file(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int examine(struct symbolize *s) {
    const struct ct_trace *t = s->v->trace;
    const char *name = t->source.name, *output = s->v->options->output;
    if (!output)
        return ct_error_set(&s->error, CT_EXIT_USAGE, "symbolize: name the new trace with --output=FILE");
    if (ct_dwarf_missing())
        return ct_error_set(&s->error, CT_EXIT_USAGE, "symbolize: no lines can be had: %s",
                       ct_dwarf_missing());
    if (same_file(name, output))
        return ct_error_set(&s->error, CT_EXIT_USAGE, "%.400s: is the trace itself; name another file",
                       output);
    if (ct_new_file_would_replace(output) && !s->v->options->force)
        return ct_error_set(&s->error, CT_EXIT_USAGE, "%.400s: exists already; --force replaces it", output);
    if (t->journal_found < 0)
        return ct_error_set(&s->error, CT_EXIT_BAD_TRACE, "%s", t->journal_error.text);
    if (t->running)
        return ct_error_set(&s->error, CT_EXIT_USAGE,
                       "%.400s: process %" PRIu32 " still records; end it first", name,
                       t->journal.head.pid);
    return 0;
}

// The modules that have frames without lines, and why.
static void put_modules(struct symbolize *s) {
    const struct ct_definitions *n = &s->v->trace->definitions;
    for (size_t i = 1; i < n->module_count; i++) {
        const struct count *c = &s->modules[i];
        if (c->with_lines == c->frames)
            continue;
        const struct ct_string *path = &n->strings[n->modules[i].path];
        const char *why = ct_dwarf_why_none(file_of(s, i));
        fprintf(s->v->out, "%8s without: ", ct_human_count(c->frames - c->with_lines).text);
        ct_utf8_print_sanitized(s->v->out, path->at, path->length);
        fprintf(s->v->out, "%s%s\n", why ? ": " : "", why ? why : "");
    }
}

static void put_done(struct symbolize *s) {
    struct ct_view *v = s->v;
    struct ct_json json = {.out = v->out}, *j = &json;
    struct count all = {0};
    for (size_t i = 0; i < v->trace->definitions.module_count; i++) {
        all.frames += s->modules[i].frames;
        all.with_lines += s->modules[i].with_lines;
    }
    if (v->options->json) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "schema", "cutrace.symbolize/1");
        ct_json_text(j, "file", v->options->output);
        ct_json_number(j, "frames", all.frames);
        ct_json_number(j, "frames_with_lines", all.with_lines);
        ct_json_close(j, '}');
        ct_json_end_line(j);
        return;
    }
    ct_utf8_print_sanitized(v->out, v->options->output, strlen(v->options->output));
    fprintf(v->out, ": lines for %s of %s native frames that had none\n",
            ct_human_count(all.with_lines).text, ct_human_count(all.frames).text);
    put_modules(s);
}

static void release(struct symbolize *s) {
    for (size_t i = 0; i < s->generation_count; i++)
        ct_map_free(&s->generations[i].modules);
    ct_map_free(&s->generation_of);
    ct_id_set_free(&s->texts);
    if (s->lines)
        ct_dwarf_close(s->lines);
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
    int rc = examine(&s);
    if (!rc) {
        s.lines = ct_dwarf_open(&v->options->lines);
        note_all(&s);
        s.modules = ct_heap_alloc_zeroed(v->trace->definitions.module_count, sizeof *s.modules);
        rc = make_file(&s, v->options->output);
    }
    if (rc)
        ct_say(s.error.text);
    else
        put_done(&s);
    release(&s);
    return rc ? (int)s.error.status : CT_EXIT_OK;
}
