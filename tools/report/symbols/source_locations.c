// SPDX-License-Identifier: Apache-2.0
// Looks native frames up in the debug information of their modules.
#include "symbols/source_locations.h"

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

int ct_source_locations_look_up(struct ct_definitions *n, const char *name,
                                const struct ct_debug_search *search, struct ct_error *warning) {
    struct ct_lines *l = ct_lines_read(n, search);
    for (size_t i = 1; i < n->frame_count; i++) {
        const struct ct_frame *f = &n->frames[i];
        const struct ct_dwarf_location *p;
        if (f->kind != CT_FRAME_NATIVE || f->location_count)
            continue;
        const size_t count = ct_lines_find(l, f->module, f->offset, &p);
        for (size_t k = 0; k < count; k++)
            ct_definitions_add_location(n, (uint32_t)i, p[k].function, p[k].file, p[k].line);
    }
    const int rc = warn(n, name, l, warning);
    ct_lines_free(l);
    return rc;
}
