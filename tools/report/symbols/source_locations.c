// SPDX-License-Identifier: Apache-2.0
// Looks native frames up in the debug information of their modules.
#include "symbols/source_locations.h"

#include <string.h>

#include "base/heap.h"

static int warn(const struct ct_definitions *n, const char *name, const struct ct_lines *l,
                struct ct_error *warning) {
    uint32_t module;
    const size_t ended = ct_lines_count_ended(l, &module);
    if (!ended)
        return 0;
    const struct ct_string *path = &n->strings[n->modules[module].path];
    return ct_error_set(warning, CT_EXIT_OK,
                        "%.200s: source lines of %zu module%s are missing: of %.*s, %s", name,
                        ended, ended == 1 ? "" : "s", path->length < 200 ? (int)path->length : 200,
                        path->at, ct_lines_why_none(l, module));
}

struct count {
    uint64_t frames, with_lines;
};

// Adds the locations of all frames; counts by module those that can have some.
static void add_locations(struct ct_definitions *n, struct ct_lines *l, struct count *modules) {
    for (size_t i = 1; i < n->frame_count; i++) {
        const struct ct_frame *f = &n->frames[i];
        const struct ct_dwarf_location *p;
        if (f->kind != CT_FRAME_NATIVE || f->location_count || !f->offset ||
            !ct_lines_asks(l, f->module))
            continue;
        const size_t count = ct_lines_find(l, f->module, f->offset, &p);
        modules[f->module].frames++;
        modules[f->module].with_lines += count > 0;
        for (size_t k = 0; k < count; k++)
            ct_definitions_add_location(n, (uint32_t)i, p[k].function, p[k].file, p[k].line);
    }
}

static void note_module(struct ct_source_locations *found, struct ct_string path,
                        const struct count *c, const char *why) {
    char *copy = ct_heap_resize(NULL, path.length, 1);
    if (path.length)
        memcpy(copy, path.at, path.length);
    found->modules[found->module_count++] =
        (struct ct_module_without_lines){{copy, path.length}, c->frames - c->with_lines, why};
}

static void note_modules(struct ct_source_locations *found, const struct ct_definitions *n,
                         const struct ct_lines *l, const struct count *modules) {
    *found = (struct ct_source_locations){
        .modules = ct_heap_alloc_zeroed(n->module_count, sizeof *found->modules)};
    for (size_t i = 1; i < n->module_count; i++) {
        const struct count *c = &modules[i];
        found->frames += c->frames;
        found->with_lines += c->with_lines;
        if (c->with_lines < c->frames)
            note_module(found, n->strings[n->modules[i].path], c,
                        ct_lines_why_none(l, (uint32_t)i));
    }
}

int ct_source_locations_look_up(struct ct_definitions *n, const char *name,
                                const struct ct_debug_search *search,
                                struct ct_source_locations *found, struct ct_error *warning) {
    struct ct_lines *l = ct_lines_read(n, search);
    struct count *modules = ct_heap_alloc_zeroed(n->module_count, sizeof *modules);
    add_locations(n, l, modules);
    if (found)
        note_modules(found, n, l, modules);
    const int rc = warn(n, name, l, warning);
    free(modules);
    ct_lines_free(l);
    return rc;
}

void ct_source_locations_free(struct ct_source_locations *found) {
    for (size_t i = 0; i < found->module_count; i++)
        free((char *)found->modules[i].path.at);
    free(found->modules);
    *found = (struct ct_source_locations){0};
}
