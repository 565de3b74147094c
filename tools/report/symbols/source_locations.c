// SPDX-License-Identifier: Apache-2.0
// Looks native frames up in the debug information of their modules.
#include "symbols/source_locations.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

int ct_source_locations_module(const struct ct_definitions *n, uint32_t module,
                               char path[CT_PATH_MAX], struct ct_debug_module *wanted) {
    const struct ct_defined_module *m = &n->modules[module];
    const struct ct_string *name = &n->strings[m->path];
    if (!module || name->length >= CT_PATH_MAX || memchr(name->at, 0, name->length))
        return 0;
    memcpy(path, name->at, name->length);
    path[name->length] = 0;
    *wanted = (struct ct_debug_module){path, (const uint8_t *)m->build_id.at, m->build_id.length};
    return 1;
}

// The debug information of a module, or NULL if there is none.
static struct ct_dwarf_file *open_module(const struct ct_definitions *n, struct ct_dwarf *lines,
                                         uint32_t module) {
    struct ct_debug_module wanted;
    char path[CT_PATH_MAX];
    if (!ct_source_locations_module(n, module, path, &wanted))
        return NULL;
    struct ct_dwarf_file *f = ct_dwarf_file(lines, &wanted);
    return ct_dwarf_why_none(f) ? NULL : f;
}

void ct_source_locations_look_up(struct ct_definitions *n, const struct ct_debug_search *search) {
    struct ct_dwarf *lines = ct_dwarf_missing() ? NULL : ct_dwarf_open(search);
    if (!lines)
        return;
    struct ct_dwarf_file **files = ct_heap_alloc_zeroed(n->module_count, sizeof *files);
    for (size_t i = 1; i < n->module_count; i++)
        files[i] = open_module(n, lines, (uint32_t)i);
    for (size_t i = 1; i < n->frame_count; i++) {
        const struct ct_frame *f = &n->frames[i];
        const struct ct_dwarf_location *p;
        if (f->kind != CT_FRAME_NATIVE || f->location_count || !f->offset || !files[f->module])
            continue;
        // The pc is a return address: look up the call instruction before it.
        const size_t count = ct_dwarf_find_locations(lines, files[f->module], f->offset - 1, &p);
        for (size_t k = 0; k < count; k++)
            ct_definitions_add_location(n, (uint32_t)i, p[k].function, p[k].file, p[k].line);
    }
    free(files);
    ct_dwarf_close(lines);
}
