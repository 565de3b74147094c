// SPDX-License-Identifier: Apache-2.0
// Naming of frames. What is passed over is in noise.def.
#include "symbols/call_sites.h"

#include <inttypes.h>

#include "base/human.h"
#include "symbols/noise.h"

enum { MAX_NAME = 4096 };

void ct_call_sites_init(struct ct_call_sites *s, const struct ct_definitions *names) {
    *s = (struct ct_call_sites){
        .names = names, .in_text = CT_DEMANGLE_SIMPLE, .in_json = CT_DEMANGLE_FULL};
}

void ct_call_sites_free(struct ct_call_sites *s) {
    for (size_t how = 0; how < sizeof s->written / sizeof *s->written; how++) {
        for (size_t i = 0; i < s->written[how].count; i++)
            free(s->written[how].text[i]);
        free(s->written[how].text);
    }
    for (size_t i = 0; i < sizeof s->nearest / sizeof *s->nearest; i++)
        free(s->nearest[i].node);
    free(s->worth);
    free(s->depth);
    *s = (struct ct_call_sites){0};
}

// Answers that are kept by number, with room for all of them.
#define ROOM(list, have, want)                                              \
    do {                                                                    \
        if ((have) < (want)) {                                              \
            (list) = ct_heap_resize((list), (want), sizeof *(list));             \
            memset((list) + (have), 0, ((want) - (have)) * sizeof *(list)); \
            (have) = (want);                                                \
        }                                                                   \
    } while (0)

// ---- names -----------------------------------------------------------------------------------------

const char *ct_call_sites_symbol(struct ct_call_sites *s, uint32_t string, enum ct_demangling how) {
    const struct ct_string *symbol = &s->definitions->strings[string];
    ROOM(s->written[how].text, s->written[how].count, s->definitions->string_count);
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

static void clean_symbol(struct ct_call_sites *s, uint32_t string, char *to, size_t size) {
    const char *name = ct_call_sites_symbol(s, string, s->in_text);
    ct_utf8_sanitize(to, size, name, strlen(name));
}

// ---- what a frame is worth -------------------------------------------------------------------------

static enum ct_frame_rank worth_of_group(enum ct_noise_group group) {
    return group == CT_NOISE_NONE   ? CT_FRAME_NAMED
           : group == CT_NOISE_OURS ? CT_FRAME_OURS
                                    : CT_FRAME_NOISE;
}

static enum ct_frame_rank worth_of_function(struct ct_call_sites *s, uint32_t function) {
    char name[MAX_NAME];
    (void)snprintf(name, sizeof name, "%s", ct_call_sites_symbol(s, function, CT_DEMANGLE_SIMPLE));
    // What compilers append to a function's name: ".cold", ".isra.0", ".lto_priv.0".
    char *dot = strchr(name, '.');
    if (dot && dot > name)
        *dot = 0;
    return worth_of_group(ct_noise_classify(CT_NOISE_FUNCTION, name));
}

// From place i on outwards, the first one whose function has a name and is no noise; as many as the frame has if there is
// none. A frame is worth what such a place is.
static uint32_t place_from(struct ct_call_sites *s, const struct ct_frame *f, uint32_t i) {
    for (; i < f->location_count; i++) {
        const uint32_t function = s->definitions->places[f->first_location + i].function;
        if (function && (s->all_frames || worth_of_function(s, function) == CT_FRAME_NAMED))
            break;
    }
    return i;
}

static enum ct_frame_rank worth_of_native(struct ct_call_sites *s, const struct ct_frame *f) {
    const struct ct_definitions *n = s->definitions;
    char module[100];
    ct_call_sites_base_name(n, n->modules[f->module].path, module, sizeof module);
    const enum ct_frame_rank of_module = worth_of_group(ct_noise_classify(CT_NOISE_MODULE, module));
    if (of_module != CT_FRAME_NAMED || (!f->module && !f->function))
        return of_module != CT_FRAME_NAMED ? of_module : CT_FRAME_NOISE;
    if (place_from(s, f, 0) < f->location_count)
        return CT_FRAME_NAMED;
    return f->function ? worth_of_function(s, f->function) : CT_FRAME_NAMELESS;
}

static enum ct_frame_rank worth_of(struct ct_call_sites *s, const struct ct_frame *f) {
    char file[MAX_NAME];
    switch (f->kind) {
    case CT_FRAME_NATIVE:
        return worth_of_native(s, f);
    case CT_FRAME_PYTHON:
        (void)snprintf(file, sizeof file, "%.*s", (int)s->definitions->strings[f->file].length,
                       s->definitions->strings[f->file].at);
        return worth_of_group(ct_noise_classify(CT_NOISE_FILE, file));
    case CT_FRAME_THREAD:
        return CT_FRAME_NAMED;
    default:
        return CT_FRAME_OURS;
    }
}

static enum ct_frame_rank frame_worth(struct ct_call_sites *s, uint32_t frame) {
    ROOM(s->worth, s->worth_count, s->definitions->frame_count);
    if (!s->worth[frame])
        s->worth[frame] = (uint8_t)worth_of(s, &s->definitions->frames[frame]);
    return (enum ct_frame_rank)s->worth[frame];
}

int ct_call_sites_hides_frame(struct ct_call_sites *s, uint32_t frame) {
    return s->definitions->frames[frame].kind != CT_FRAME_END && frame_worth(s, frame) >= CT_FRAME_NOISE;
}

// ---- who asked -------------------------------------------------------------------------------------

// The nearest node, from this one on outwards, whose frame is worth that much; 0 if there is none. Each node is looked at once:
// what is found holds for all that lie between.
static uint32_t nearest(struct ct_call_sites *s, uint32_t node, enum ct_frame_rank worth) {
    const struct ct_call_tree_node *nodes = s->definitions->nodes;
    uint32_t found = node;
    ROOM(s->nearest[worth - 1].node, s->nearest[worth - 1].count, s->definitions->node_count);
    uint32_t *known = s->nearest[worth - 1].node;
    while (found && !known[found] && frame_worth(s, nodes[found].frame) > worth)
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

static void take_node(struct ct_shown_frames *a, uint32_t node) {
    a->node = node;
    a->location = place_from(a->sites, ct_definitions_node_frame(a->sites->definitions, node), 0);
}

struct ct_shown_frames ct_call_sites_shown_frames(struct ct_call_sites *s, uint32_t stack) {
    const uint32_t node = s->definitions->stacks[stack];
    struct ct_shown_frames a = {.sites = s, .stack = stack, .worth = CT_FRAME_OURS};
    uint32_t found = s->all_frames ? node : 0;
    for (int worth = CT_FRAME_NAMED; worth < CT_FRAME_OURS && !found; worth++) {
        a.worth = (enum ct_frame_rank)worth;
        found = nearest(s, node, a.worth);
    }
    take_node(&a, found ? found : node);
    return a;
}

// To the function that one is inlined into; from the frame's own to that of the next node.
void ct_call_sites_next_frame(struct ct_shown_frames *a) {
    const struct ct_definitions *n = a->sites->definitions;
    const struct ct_frame *f = ct_definitions_node_frame(n, a->node);
    const uint32_t place = place_from(a->sites, f, a->location + 1);
    uint32_t next = n->nodes[a->node].parent;
    if (place < f->location_count) {
        a->location = place;
        return;
    }
    if (a->worth == CT_FRAME_NOISE) // one of them is enough
        next = 0;
    else if (!a->sites->all_frames)
        next = nearest(a->sites, next, a->worth);
    // (An end is told apart from the frames; one behind which the Python frames are known stands among them.)
    take_node(a, is_end(n, next) && !n->nodes[next].parent ? 0 : next);
}

uint32_t ct_call_sites_count_hidden(const struct ct_shown_frames *a) {
    const struct ct_definitions *n = a->sites->definitions;
    uint32_t left = 0, before = 0;
    for (uint32_t i = n->stacks[a->stack]; i; i = n->nodes[i].parent)
        left += !is_end(n, i);
    for (struct ct_shown_frames one = ct_call_sites_shown_frames(a->sites, a->stack); one.node; ct_call_sites_next_frame(&one)) {
        left -= one.node != before && !is_end(n, one.node);
        before = one.node;
    }
    return left;
}

const char *ct_call_sites_end_text(const struct ct_definitions *n, uint32_t stack) {
    uint32_t node = n->stacks[stack];
    while (n->nodes[node].parent)
        node = n->nodes[node].parent;
    if (node == n->stacks[stack] || !is_end(n, node)) // (alone it is shown as a frame)
        return NULL;
    return ct_definitions_node_frame(n, node)->line == CT_STACK_DEEPER ? "deeper: CUTRACE_STACK_DEPTH"
                                                           : "caller unknown";
}

// ---- labels ----------------------------------------------------------------------------------------

static void python_label(struct ct_call_sites *s, const struct ct_frame *f, char *to, size_t size) {
    const struct ct_string *function = &s->definitions->strings[f->function];
    char place[200], name[MAX_NAME] = "?";
    ct_call_sites_base_name(s->definitions, f->file, place, sizeof place);
    if (f->function)
        ct_utf8_sanitize(name, sizeof name, function->at, function->length);
    if (f->line)
        (void)snprintf(to, size, "%.120s:%" PRIu64 " %.160s", *place ? place : "?", f->line, name);
    else
        (void)snprintf(to, size, "%.120s %.160s", *place ? place : "?", name);
}

static void place_label(struct ct_call_sites *s, const struct ct_frame *f, uint32_t place, char *to,
                        size_t size) {
    const struct ct_source_location *p = &s->definitions->places[f->first_location + place];
    char file[200], name[MAX_NAME];
    ct_call_sites_base_name(s->definitions, p->file, file, sizeof file);
    clean_symbol(s, p->function, name, sizeof name);
    (void)snprintf(to, size, "%.160s at %.120s:%" PRIu64 "%s", *name ? name : "?",
                   *file ? file : "?", p->line, place + 1 < f->location_count ? " (inlined)" : "");
}

static void symbol_label(struct ct_call_sites *s, const struct ct_frame *f, char *to, size_t size) {
    char module[200] = "?", name[MAX_NAME];
    if (f->module)
        ct_call_sites_base_name(s->definitions, s->definitions->modules[f->module].path, module, sizeof module);
    if (f->function) {
        clean_symbol(s, f->function, name, sizeof name);
        (void)snprintf(to, size, "%.160s (%.120s)", name, module);
    } else if (f->module) {
        (void)snprintf(to, size, "%.160s+0x%" PRIx64, module, f->offset);
    } else {
        (void)snprintf(to, size, "0x%" PRIx64, f->pc);
    }
}

void ct_call_sites_frame_label(struct ct_call_sites *s, const struct ct_frame *f, uint32_t place, char *to,
                    size_t size) {
    const struct ct_string *function = &s->definitions->strings[f->function];
    if (f->kind == CT_FRAME_PYTHON)
        python_label(s, f, to, size);
    else if (f->kind == CT_FRAME_END)
        (void)snprintf(to, size, "(caller unknown)");
    else if (f->kind == CT_FRAME_THREAD)
        (void)snprintf(to, size, "thread %.*s (no stack)", (int)function->length, function->at);
    else if (place < f->location_count)
        place_label(s, f, place, to, size);
    else
        symbol_label(s, f, to, size);
    ct_utf8_sanitize(to, size, to, strlen(to)); // a name cut in the middle of a character
}

void ct_call_sites_shown_label(const struct ct_shown_frames *a, char *to, size_t size) {
    ct_call_sites_frame_label(a->sites, ct_definitions_node_frame(a->sites->definitions, a->node), a->location, to, size);
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
    ct_utf8_sanitize(to, size, to, strlen(to)); // a label cut in the middle of a character
}

// ---- JSON ------------------------------------------------------------------------------------------

static void json_string(struct ct_json *j, const char *key, uint32_t string, struct ct_call_sites *s) {
    if (s->definitions->strings[string].length)
        ct_json_bytes(j, key, s->definitions->strings[string].at, s->definitions->strings[string].length);
    else
        ct_json_null(j, key);
}

static void json_symbol(struct ct_json *j, const char *key, uint32_t string, struct ct_call_sites *s) {
    if (string)
        ct_json_text(j, key, ct_call_sites_symbol(s, string, s->in_json));
    else
        ct_json_null(j, key);
}

static void json_place(struct ct_json *j, struct ct_call_sites *s, uint32_t file, uint64_t line) {
    json_string(j, "file", file, s);
    ct_json_number_or_null(j, "line", line != 0, line);
}

static void json_inlined(struct ct_json *j, struct ct_call_sites *s, const struct ct_frame *f) {
    ct_json_open(j, "inlined", '[');
    for (uint32_t i = 0; i + 1 < f->location_count; i++) {
        const struct ct_source_location *p = &s->definitions->places[f->first_location + i];
        ct_json_open(j, NULL, '{');
        json_symbol(j, "name", p->function, s);
        json_place(j, s, p->file, p->line);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void json_frame(struct ct_json *j, struct ct_call_sites *s, uint32_t frame) {
    static const char *const kinds[] = {"native", "python", "end"};
    const struct ct_definitions *n = s->definitions;
    const struct ct_frame *f = &n->frames[frame];
    const struct ct_source_location *own =
        f->location_count ? &n->locations[f->first_location + f->location_count - 1] : NULL;
    const int native = f->kind == CT_FRAME_NATIVE, end = f->kind == CT_FRAME_END;
    ct_json_open(j, NULL, '{');
    if (native)
        json_symbol(j, "name", f->function || !own ? f->function : own->function, s);
    else
        json_string(j, "name", f->function, s);
    json_place(j, s, own ? own->file : f->file, own ? own->line : end ? 0 : f->line);
    json_string(j, "module", n->modules[f->module].path, s);
    ct_json_number_or_null(j, "offset", native && (f->module || f->pc), f->module ? f->offset : f->pc);
    ct_json_text(j, "kind", f->kind < sizeof kinds / sizeof *kinds ? kinds[f->kind] : "unknown");
    json_inlined(j, s, f);
    if (end)
        ct_json_text(j, "end", f->line == CT_STACK_DEEPER ? "deeper" : "lost");
    else
        ct_json_null(j, "end");
    ct_json_bool(j, "hidden", ct_call_sites_hides_frame(s, frame));
    ct_json_close(j, '}');
}

void ct_call_sites_json_stack(struct ct_json *j, struct ct_call_sites *s, const char *key, uint32_t stack) {
    const struct ct_definitions *n = s->definitions;
    if (!stack || ct_definitions_node_frame(n, n->stacks[stack])->kind == CT_FRAME_THREAD) {
        ct_json_null(j, key);
        return;
    }
    ct_json_open(j, key, '[');
    for (uint32_t i = n->stacks[stack]; i; i = n->nodes[i].parent)
        json_frame(j, s, n->nodes[i].frame);
    ct_json_close(j, ']');
}
