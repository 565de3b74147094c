// SPDX-License-Identifier: Apache-2.0
#include "snapshot/snapshot_stacks.h"

#include <string.h>

static struct ct_string text_of(const struct ct_pickle_value *v) {
    return v && v->type == CT_PICKLE_IS_TEXT ? (struct ct_string){v->text, v->length}
                                             : (struct ct_string){"", 0};
}

static int ends_with(struct ct_string s, const char *end) {
    const size_t n = strlen(end);
    return s.length >= n && memcmp(s.at + s.length - n, end, n) == 0;
}

// Code without a file has one in angle brackets: "<stdin>".
static int is_python(struct ct_string file) {
    return ends_with(file, ".py") || (file.length && *file.at == '<');
}

static struct ct_string find_text(const struct ct_snapshot *s, const struct ct_pickle_value *dict,
                                  const char *key) {
    return text_of(ct_pickle_find(&s->document, dict, key));
}

// What `cutrace-report export` puts into names that PyTorch's viewer would leave out.
static struct ct_string without_breaks(struct ct_string s, char *to, size_t size) {
    static const char space[] = "\xE2\x80\x8B";
    size_t n = 0;
    if (s.length >= size || !memmem(s.at, s.length, space, sizeof space - 1))
        return s;
    for (uint32_t i = 0; i < s.length; i++) {
        if (s.length - i >= sizeof space - 1 && memcmp(s.at + i, space, sizeof space - 1) == 0)
            i += sizeof space - 2;
        else
            to[n++] = s.at[i];
    }
    return (struct ct_string){to, (uint32_t)n};
}

static uint32_t make_frame(struct ct_snapshot *s, const struct ct_pickle_value *dict) {
    char name[512];
    const struct ct_string file = find_text(s, dict, "filename"),
                           function = without_breaks(find_text(s, dict, "name"), name, sizeof name),
                           none = {"", 0};
    const struct ct_pickle_value *line = ct_pickle_find(&s->document, dict, "line");
    const uint64_t number =
        line && line->type == CT_PICKLE_IS_NUMBER && line->number > 0 ? (uint64_t)line->number : 0;
    if (is_python(file))
        return ct_definitions_add_python_frame(&s->definitions, function, file, number);
    const int is_library = memmem(file.at, file.length, ".so", 3) != NULL;
    return ct_definitions_add_native_frame(&s->definitions, dict->container + 1u, function,
                                           is_library ? file : none);
}

static uint32_t get_frame(struct ct_snapshot *s, const struct ct_pickle_value *dict) {
    if (dict->type != CT_PICKLE_IS_DICT)
        return 0;
    uint64_t *known = ct_map_add(&s->frame_of_dict, dict->container);
    if (!*known)
        *known = make_frame(s, dict) + UINT64_C(1);
    return (uint32_t)(*known - 1);
}

static int is_python_frame(const struct ct_snapshot *s, uint32_t frame) {
    return s->definitions.frames[frame].kind == CT_FRAME_PYTHON;
}

// The stack of frames, innermost first.
static uint32_t make_stack(struct ct_snapshot *s, const uint32_t *frames, size_t count) {
    int has_python = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < count; i++)
        has_python |= is_python_frame(s, frames[i]);
    for (size_t i = count; i-- > 0;)
        if (!has_python || is_python_frame(s, frames[i]))
            node = ct_definitions_add_node(&s->definitions, node, frames[i]);
    return node ? ct_definitions_add_stack(&s->definitions, node) : 0;
}

// Of longer lists the frames in the middle are left out: the innermost ones name the call site, the
// outermost ones the phase.
static uint32_t read_list(struct ct_snapshot *s, const struct ct_pickle_value *list) {
    static uint32_t frames[CT_MAX_STACK];
    const uint64_t all = ct_pickle_count(&s->document, list);
    const uint64_t skipped = all > CT_MAX_STACK ? all - CT_MAX_STACK : 0;
    struct ct_pickle_walk w = ct_pickle_walk(&s->document, list);
    const struct ct_pickle_value *v;
    size_t n = 0;
    for (uint64_t i = 0; (v = ct_pickle_next(&w)); i++) {
        if (i >= CT_MAX_STACK / 2 && i < CT_MAX_STACK / 2 + skipped)
            continue;
        const uint32_t frame = get_frame(s, v);
        if (frame)
            frames[n++] = frame;
    }
    return make_stack(s, frames, n);
}

uint32_t ct_snapshot_stack(struct ct_snapshot *s, const struct ct_pickle_value *frames) {
    if (!frames || frames->type != CT_PICKLE_IS_LIST)
        return 0;
    uint64_t *known = ct_map_add(&s->stack_of_list, frames->container);
    if (!*known)
        *known = read_list(s, frames) + UINT64_C(1);
    return (uint32_t)(*known - 1);
}
