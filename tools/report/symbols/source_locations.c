// SPDX-License-Identifier: Apache-2.0
// Gives native frames of a trace their places in the source.
#include "symbols/source_locations.h"

int ct_places_wanted(const struct ct_names *n, uint32_t module, char path[CT_PATH_MAX],
                     struct ct_lines_module *wanted) {
    const struct ct_module *m = &n->modules[module];
    const struct ct_string *name = &n->strings[m->path];
    if (!module || name->length >= CT_PATH_MAX || memchr(name->at, 0, name->length))
        return 0;
    memcpy(path, name->at, name->length);
    path[name->length] = 0;
    *wanted = (struct ct_lines_module){path, (const uint8_t *)m->build_id.at, m->build_id.length};
    return 1;
}

// Without debug information a module costs its frames nothing.
static struct ct_lines_file *file_of(const struct ct_names *n, struct ct_lines *lines,
                                     uint32_t module) {
    struct ct_lines_module wanted;
    char path[CT_PATH_MAX];
    struct ct_lines_file *f =
        ct_places_wanted(n, module, path, &wanted) ? ct_lines_file(lines, &wanted) : NULL;
    return f && !ct_lines_why(f) ? f : NULL;
}

void ct_places_look_up(struct ct_names *n, const struct ct_lines_from *from) {
    struct ct_lines *lines = ct_lines_missing() ? NULL : ct_lines_open(from);
    if (!lines)
        return;
    struct ct_lines_file **files = ct_zeroed(n->module_count, sizeof *files);
    for (size_t i = 1; i < n->module_count; i++)
        files[i] = file_of(n, lines, (uint32_t)i);
    for (size_t i = 1; i < n->frame_count; i++) {
        const struct ct_frame *f = &n->frames[i];
        const struct ct_source_place *p;
        if (f->kind != CT_FRAME_NATIVE || f->place_count || !f->offset || !files[f->module])
            continue;
        // The pc is a return address; as with the symbol, what counts is the instruction before it.
        const size_t count = ct_lines_find(lines, files[f->module], f->offset - 1, &p);
        for (size_t k = 0; k < count; k++)
            ct_names_add_place(n, (uint32_t)i, p[k].function, p[k].file, p[k].line);
    }
    free(files);
    ct_lines_close(lines);
}
