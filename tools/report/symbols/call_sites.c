// SPDX-License-Identifier: Apache-2.0
// Finds and writes names of frames. noise.def says which frames are noise.
#include "symbols/call_sites.h"

#include <cutrace/format/assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "base/wrap.h"

// Of a name in bytes; of the parts of a label in columns.
enum { MAX_NAME = 4096, MAX_FILE = 120, MAX_FUNCTION = 160 };
// Of the JSON of frames that is kept. (A hostile trace has many frames with a long name.)
enum { MAX_JSON = 16 << 20 };

void ct_call_sites_init(struct ct_call_sites *s, const struct ct_definitions *definitions) {
    *s = (struct ct_call_sites){
        .definitions = definitions, .in_text = CT_DEMANGLE_SIMPLE, .in_json = CT_DEMANGLE_FULL};
}

void ct_call_sites_free(struct ct_call_sites *s) {
    for (size_t how = 0; how < sizeof s->written / sizeof *s->written; how++) {
        for (size_t i = 0; i < s->written[how].count; i++)
            free(s->written[how].text[i]);
        free(s->written[how].text);
    }
    for (size_t i = 0; i < sizeof s->nearest / sizeof *s->nearest; i++)
        free(s->nearest[i].node);
    for (size_t i = 0; i < s->json.count; i++)
        free(s->json.list[i].text);
    free(s->json.list);
    ct_file_names_free(&s->files);
    free(s->rank);
    free(s->depth);
    *s = (struct ct_call_sites){0};
}

// ---- names --------------------------------------------------------------------------------------

const char *ct_call_sites_symbol(struct ct_call_sites *s, uint32_t string, enum ct_demangling how) {
    const struct ct_string *symbol = &s->definitions->strings[string];
    CT_HEAP_EXTEND(s->written[how].text, s->written[how].count, s->definitions->string_count);
    char **name = &s->written[how].text[string];
    if (!*name) {
        char text[MAX_NAME];
        size_t n = ct_demangle(symbol->at, symbol->length, how, text, sizeof text);
        if (!n) {
            n = symbol->length < sizeof text ? symbol->length : sizeof text - 1;
            memcpy(text, symbol->at, n);
        }
        *name = ct_heap_resize(NULL, n + 1, 1);
        memcpy(*name, text, n);
        (*name)[n] = 0;
    }
    return *name;
}

void ct_call_sites_base_name(const struct ct_definitions *n, uint32_t path, char *to, size_t size) {
    const struct ct_string *s = &n->strings[path];
    const char *slash = s->length ? memrchr(s->at, '/', s->length) : NULL;
    const char *from = slash ? slash + 1 : s->at;
    ct_utf8_sanitize(to, size, from, s->length - (size_t)(from - s->at));
}

// ---- ranks of frames ----------------------------------------------------------------------------

// The name of a function as the table of noise has it: without what compilers append (".cold",
// ".isra.0", ".lto_priv.0").
static const char *copy_plain_name(struct ct_call_sites *s, uint32_t function, char *to,
                                   size_t size) {
    (void)snprintf(to, size, "%s", ct_call_sites_symbol(s, function, CT_DEMANGLE_SIMPLE));
    char *dot = strchr(to, '.');
    if (dot && dot > to)
        *dot = 0;
    return to;
}

static enum ct_frame_rank rank_function(struct ct_call_sites *s, uint32_t function) {
    char name[MAX_NAME];
    return ct_noise_rank(
        ct_noise_classify(CT_NOISE_FUNCTION, copy_plain_name(s, function, name, sizeof name)));
}

// Finds, from location i outwards, the first one whose function has a name and is no noise;
// location_count if there is none. A frame with such a location is a named one.
static uint32_t find_named_location(struct ct_call_sites *s, const struct ct_frame *f, uint32_t i) {
    for (; i < f->location_count; i++) {
        const uint32_t function = s->definitions->locations[f->first_location + i].function;
        if (function && (s->all_frames || rank_function(s, function) == CT_RANK_NAMED))
            break;
    }
    return i;
}

static enum ct_frame_rank rank_native(struct ct_call_sites *s, const struct ct_frame *f) {
    const struct ct_string *path =
        &s->definitions->strings[s->definitions->modules[f->module].path];
    char module[MAX_NAME], function[MAX_NAME] = "";
    ct_caller_copy_path(path->at, path->length, module, sizeof module);
    if (f->function)
        copy_plain_name(s, f->function, function, sizeof function);
    const enum ct_frame_rank rank = ct_noise_rank(ct_noise_classify_native(module, function));
    const enum ct_noise_group of_module = ct_noise_classify(CT_NOISE_MODULE, module);
    const int may_stay = of_module == CT_NOISE_TORCH || of_module == CT_NOISE_PACKAGES;
    if (may_stay && !f->function && !f->location_count)
        return CT_RANK_NAMELESS; // what it is called may be a name that stays
    if (rank != CT_RANK_NAMED && of_module != CT_NOISE_NONE)
        return rank;
    if (!f->module && !f->function)
        return CT_RANK_NOISE;
    if (find_named_location(s, f, 0) < f->location_count)
        return CT_RANK_NAMED;
    return f->function ? rank : CT_RANK_NAMELESS;
}

static enum ct_frame_rank rank_python(const struct ct_call_sites *s, const struct ct_frame *f) {
    const struct ct_string *file = &s->definitions->strings[f->file],
                           *function = &s->definitions->strings[f->function];
    return ct_caller_rank_python(file->at, file->length, function->at, function->length);
}

static enum ct_frame_rank compute_rank(struct ct_call_sites *s, const struct ct_frame *f) {
    switch (f->kind) {
    case CT_FRAME_NATIVE:
        return rank_native(s, f);
    case CT_FRAME_PYTHON:
        return rank_python(s, f);
    case CT_FRAME_THREAD:
        return CT_RANK_NAMED;
    default:
        return CT_RANK_OURS;
    }
}

static enum ct_frame_rank rank_frame(struct ct_call_sites *s, uint32_t frame) {
    CT_HEAP_EXTEND(s->rank, s->rank_count, s->definitions->frame_count);
    if (!s->rank[frame])
        s->rank[frame] = (uint8_t)compute_rank(s, &s->definitions->frames[frame]);
    return (enum ct_frame_rank)s->rank[frame];
}

int ct_call_sites_hides_frame(struct ct_call_sites *s, uint32_t frame) {
    const enum ct_frame_rank rank = rank_frame(s, frame);
    return s->definitions->frames[frame].kind != CT_FRAME_END &&
           (rank == CT_RANK_PACKAGE || rank >= CT_RANK_WRAPPER);
}

// ---- call sites ---------------------------------------------------------------------------------

// Finds the nearest node, from this one outwards, whose frame has that rank or a better one; 0 if
// there is none. Each node is visited once, because the answer is stored for all nodes on the way.
static uint32_t find_nearest(struct ct_call_sites *s, uint32_t node, enum ct_frame_rank rank) {
    CT_ASSERT(rank >= CT_RANK_NAMED && rank < CT_RANKS);
    const struct ct_call_tree_node *nodes = s->definitions->nodes;
    uint32_t found = node;
    CT_HEAP_EXTEND(s->nearest[rank].node, s->nearest[rank].count, s->definitions->node_count);
    uint32_t *known = s->nearest[rank].node;
    while (found && !known[found] && rank_frame(s, nodes[found].frame) > rank)
        found = nodes[found].parent;
    if (known[found])
        found = known[found] - 1;
    for (uint32_t i = node; i && !known[i]; i = nodes[i].parent) {
        known[i] = found + 1;
        if (i == found)
            break;
    }
    return found;
}

static int is_end(const struct ct_definitions *n, uint32_t node) {
    return ct_definitions_node_frame(n, node)->kind == CT_FRAME_END;
}

static void set_node(struct ct_shown_frames *a, uint32_t node) {
    a->node = node;
    a->location =
        find_named_location(a->sites, ct_definitions_node_frame(a->sites->definitions, node), 0);
}

struct ct_shown_frames ct_call_sites_shown_frames(struct ct_call_sites *s, uint32_t stack) {
    const uint32_t node = s->definitions->stacks[stack];
    struct ct_shown_frames a = {.sites = s, .stack = stack, .rank = CT_RANK_OURS};
    uint32_t found = s->all_frames ? node : 0;
    for (int rank = CT_RANK_NAMED; rank < CT_RANK_OURS && !found; rank++) {
        a.rank = (enum ct_frame_rank)rank;
        found = find_nearest(s, node, a.rank);
    }
    set_node(&a, found ? found : node);
    return a;
}

// Moves to the function into which this one is inlined; from the frame's own function to the next
// frame.
void ct_call_sites_next_frame(struct ct_shown_frames *a) {
    const struct ct_definitions *n = a->sites->definitions;
    const struct ct_frame *f = ct_definitions_node_frame(n, a->node);
    const uint32_t location = find_named_location(a->sites, f, a->location + 1);
    uint32_t next = n->nodes[a->node].parent;
    if (location < f->location_count) {
        a->location = location;
        return;
    }
    if (a->rank == CT_RANK_NOISE) // show one frame of noise only
        next = 0;
    else if (!a->sites->all_frames)
        next = find_nearest(a->sites, next, a->rank);
    // Views report the end of a stack separately (ct_call_sites_end_text), unless Python frames
    // follow it.
    set_node(a, is_end(n, next) && !n->nodes[next].parent ? 0 : next);
}

uint32_t ct_call_sites_count_hidden(const struct ct_shown_frames *a) {
    const struct ct_definitions *n = a->sites->definitions;
    uint32_t left = 0, before = 0;
    for (uint32_t i = n->stacks[a->stack]; i; i = n->nodes[i].parent)
        left += !is_end(n, i);
    for (struct ct_shown_frames one = ct_call_sites_shown_frames(a->sites, a->stack); one.node;
         ct_call_sites_next_frame(&one)) {
        left -= one.node != before && !is_end(n, one.node);
        before = one.node;
    }
    return left;
}

const char *ct_call_sites_end_text(const struct ct_definitions *n, uint32_t stack) {
    uint32_t node = n->stacks[stack];
    while (n->nodes[node].parent)
        node = n->nodes[node].parent;
    if (node == n->stacks[stack] || !is_end(n, node)) // (an end alone is shown as a frame)
        return NULL;
    return ct_definitions_node_frame(n, node)->line == CT_STACK_DEEPER
               ? "deeper: CUTRACE_STACK_DEPTH"
               : "caller unknown";
}

// ---- labels -------------------------------------------------------------------------------------

// Copies the short name of a file; "?" if there is none.
static void copy_file(struct ct_call_sites *s, uint32_t file, char *to, size_t size) {
    const struct ct_string *path = &s->definitions->strings[file];
    const size_t from = ct_file_names_offset(&s->files, s->definitions, file);
    if (!ct_utf8_sanitize(to, size, path->at + from, path->length - from))
        (void)snprintf(to, size, "?");
    ct_elide(to, MAX_FILE, "...");
}

static void copy_symbol(struct ct_call_sites *s, uint32_t string, char *to, size_t size) {
    const char *name = ct_call_sites_symbol(s, string, s->in_text);
    ct_utf8_sanitize(to, size, name, strlen(name));
    ct_elide(to, MAX_FUNCTION, "...");
}

static void print_python(struct ct_call_sites *s, const struct ct_frame *f, char *to, size_t size) {
    const struct ct_string *function = &s->definitions->strings[f->function];
    char file[MAX_NAME], line[24] = "", name[MAX_NAME] = "?";
    copy_file(s, f->file, file, sizeof file);
    if (f->function)
        ct_utf8_sanitize(name, sizeof name, function->at, function->length);
    ct_elide(name, MAX_FUNCTION, "...");
    if (f->line)
        (void)snprintf(line, sizeof line, ":%" PRIu64, f->line);
    (void)snprintf(to, size, "%s%s %s", file, line, name);
}

static void print_location(struct ct_call_sites *s, const struct ct_frame *f, uint32_t location,
                           char *to, size_t size) {
    const struct ct_source_location *p = &s->definitions->locations[f->first_location + location];
    char file[MAX_NAME], name[MAX_NAME];
    copy_file(s, p->file, file, sizeof file);
    copy_symbol(s, p->function, name, sizeof name);
    (void)snprintf(to, size, "%s:%" PRIu64 " %s%s", file, p->line, *name ? name : "?",
                   location + 1 < f->location_count ? " (inlined)" : "");
}

static void print_symbol(struct ct_call_sites *s, const struct ct_frame *f, char *to, size_t size) {
    char module[MAX_NAME] = "?", name[MAX_NAME];
    if (f->module)
        ct_call_sites_base_name(s->definitions, s->definitions->modules[f->module].path, module,
                                sizeof module);
    ct_elide(module, MAX_FILE, "...");
    if (f->function) {
        copy_symbol(s, f->function, name, sizeof name);
        (void)snprintf(to, size, "%s (%s)", name, module);
    } else if (f->module) {
        (void)snprintf(to, size, "%s+0x%" PRIx64, module, f->offset);
    } else {
        (void)snprintf(to, size, "0x%" PRIx64, f->pc);
    }
}

void ct_call_sites_frame_label(struct ct_call_sites *s, const struct ct_frame *f, uint32_t location,
                               char *to, size_t size) {
    const struct ct_string *function = &s->definitions->strings[f->function];
    if (f->kind == CT_FRAME_PYTHON)
        print_python(s, f, to, size);
    else if (f->kind == CT_FRAME_END)
        (void)snprintf(to, size, "(caller unknown)");
    else if (f->kind == CT_FRAME_THREAD)
        (void)snprintf(to, size, "thread %.*s (no stack)", (int)function->length, function->at);
    else if (location < f->location_count)
        print_location(s, f, location, to, size);
    else
        print_symbol(s, f, to, size);
    ct_utf8_sanitize(to, size, to, strlen(to)); // the name may be cut inside a character
}

void ct_call_sites_shown_label(const struct ct_shown_frames *a, char *to, size_t size) {
    ct_call_sites_frame_label(a->sites, ct_definitions_node_frame(a->sites->definitions, a->node),
                              a->location, to, size);
}

void ct_call_sites_label(struct ct_call_sites *s, uint32_t stack, char *to, size_t size) {
    char label[400];
    if (!stack) {
        (void)snprintf(to, size, "(no stack)");
        return;
    }
    const uint32_t depth = stack < s->depth_count && s->depth[stack] ? s->depth[stack] : 1;
    struct ct_shown_frames a = ct_call_sites_shown_frames(s, stack);
    size_t at = 0;
    for (uint32_t i = 0; i < depth && a.node && at + 8 < size; i++, ct_call_sites_next_frame(&a)) {
        ct_call_sites_shown_label(&a, label, sizeof label);
        at += (size_t)snprintf(to + at, size - at, "%s%s", i ? " <- " : "", label);
    }
    ct_utf8_sanitize(to, size, to, strlen(to)); // a label may be cut inside a character
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_string(struct ct_json *j, const char *key, uint32_t string,
                       struct ct_call_sites *s) {
    const struct ct_string *text = &s->definitions->strings[string];
    ct_json_bytes_or_null(j, key, text->at, text->length);
}

static void add_symbol(struct ct_json *j, const char *key, uint32_t string,
                       struct ct_call_sites *s) {
    ct_json_text_or_null(j, key, string ? ct_call_sites_symbol(s, string, s->in_json) : NULL);
}

static void add_location(struct ct_json *j, struct ct_call_sites *s, uint32_t file, uint64_t line) {
    add_string(j, "file", file, s);
    ct_json_number_or_null(j, "line", line != 0, line);
}

static void add_inlined(struct ct_json *j, struct ct_call_sites *s, const struct ct_frame *f) {
    ct_json_open(j, "inlined", '[');
    for (uint32_t i = 0; i + 1 < f->location_count; i++) {
        const struct ct_source_location *p = &s->definitions->locations[f->first_location + i];
        ct_json_open(j, NULL, '{');
        add_symbol(j, "name", p->function, s);
        add_location(j, s, p->file, p->line);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void write_frame(struct ct_json *j, struct ct_call_sites *s, uint32_t frame) {
    static const char *const kinds[] = {"native", "python", "end"};
    const struct ct_definitions *n = s->definitions;
    const struct ct_frame *f = &n->frames[frame];
    const struct ct_source_location *own =
        f->location_count ? &n->locations[f->first_location + f->location_count - 1] : NULL;
    const int native = f->kind == CT_FRAME_NATIVE, end = f->kind == CT_FRAME_END;
    ct_json_open(j, NULL, '{');
    if (native)
        add_symbol(j, "name", !f->function && own ? own->function : f->function, s);
    else
        add_string(j, "name", f->function, s);
    if (own)
        add_location(j, s, own->file, own->line);
    else
        add_location(j, s, f->file, end ? 0 : f->line);
    add_string(j, "module", n->modules[f->module].path, s);
    ct_json_number_or_null(j, "offset", native && (f->module || f->pc),
                           f->module ? f->offset : f->pc);
    ct_json_text(j, "kind", f->kind < sizeof kinds / sizeof *kinds ? kinds[f->kind] : "unknown");
    add_inlined(j, s, f);
    ct_json_text_or_null(j, "end", !end ? NULL : f->line == CT_STACK_DEEPER ? "deeper" : "lost");
    ct_json_bool(j, "hidden", ct_call_sites_hides_frame(s, frame));
    ct_json_close(j, '}');
}

static struct ct_frame_json make_frame(struct ct_call_sites *s, uint32_t frame) {
    struct ct_frame_json made = {.text = NULL};
    struct ct_json own = {.out = ct_heap_open_text(&made.text, &made.length)};
    write_frame(&own, s, frame);
    ct_heap_close_text(own.out);
    return made;
}

static void add_frame(struct ct_json *j, struct ct_call_sites *s, uint32_t frame) {
    CT_HEAP_EXTEND(s->json.list, s->json.count, s->definitions->frame_count);
    struct ct_frame_json *kept = &s->json.list[frame];
    if (!kept->text && s->json.bytes < MAX_JSON) {
        *kept = make_frame(s, frame);
        s->json.bytes += kept->length;
    }
    if (kept->text)
        ct_json_written(j, NULL, kept->text, kept->length);
    else
        write_frame(j, s, frame);
}

void ct_call_sites_json_stack(struct ct_json *j, struct ct_call_sites *s, const char *key,
                              uint32_t stack) {
    const struct ct_definitions *n = s->definitions;
    if (s->omits_stacks || !stack ||
        ct_definitions_node_frame(n, n->stacks[stack])->kind == CT_FRAME_THREAD) {
        ct_json_null(j, key);
        return;
    }
    ct_json_open(j, key, '[');
    for (uint32_t i = n->stacks[stack]; i; i = n->nodes[i].parent)
        add_frame(j, s, n->nodes[i].frame);
    ct_json_close(j, ']');
}
