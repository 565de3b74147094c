// SPDX-License-Identifier: Apache-2.0
#include "export/frame_table.h"

// ---- frames -------------------------------------------------------------------------------------

struct ct_frame_names ct_frame_names_get(const struct ct_shown_frames *a, char *label,
                                         size_t size) {
    struct ct_call_sites *sites = a->sites;
    const struct ct_definitions *n = sites->definitions;
    const struct ct_frame *f = ct_definitions_node_frame(n, a->node);
    const struct ct_source_location *p =
        a->location < f->location_count ? &n->locations[f->first_location + a->location] : NULL;
    struct ct_frame_names names = {.file = n->modules[f->module].path};
    const uint32_t symbol = p && p->function ? p->function : f->function;
    if (f->kind == CT_FRAME_PYTHON) {
        names.file = f->file;
        names.line = f->line;
    }
    if (p) {
        names.file = p->file;
        names.line = p->line;
    }
    if (f->kind == CT_FRAME_NATIVE)
        names.address = f->offset;
    if (f->kind == CT_FRAME_PYTHON && n->strings[f->function].length) {
        names.function = n->strings[f->function];
        return names;
    }
    const char *text = label;
    if (f->kind == CT_FRAME_NATIVE && symbol)
        text = ct_call_sites_symbol(sites, symbol, sites->in_text);
    else
        ct_call_sites_frame_label(sites, f, f->location_count, label, size);
    names.function = (struct ct_string){text, (uint32_t)strlen(text)};
    return names;
}

void ct_frame_table_init(struct ct_frame_table *t, struct ct_export *x) {
    *t = (struct ct_frame_table){.x = x};
}

void ct_frame_table_free(struct ct_frame_table *t) {
    for (size_t i = 0; i < t->count; i++) {
        free(t->list[i].name);
        free(t->list[i].file);
    }
    free(t->list);
    free(t->stack);
    ct_map_free(&t->known);
    ct_map_free(&t->of_name);
    ct_names_free(&t->made_up);
}

static uint32_t append(struct ct_frame_table *t, const char *name, const char *file, uint64_t line,
                       uint64_t address) {
    CT_HEAP_GROW(t->list, t->count, t->room);
    t->list[t->count] = (struct ct_export_frame){.name = ct_heap_copy_text(*name ? name : "?"),
                                                 .file = *file ? ct_heap_copy_text(file) : NULL,
                                                 .line = line,
                                                 .address = address};
    return (uint32_t)t->count++;
}

// The frame of a name that is not in the trace.
static uint32_t add_name(struct ct_frame_table *t, const char *name) {
    uint64_t *at = ct_map_add(&t->of_name, ct_names_add(&t->made_up, name));
    if (!*at)
        *at = append(t, name, "", 0, 0) + UINT64_C(1);
    return (uint32_t)(*at - 1);
}

static uint32_t add_shown(struct ct_frame_table *t, const struct ct_shown_frames *a) {
    char label[1300], name[CT_EXPORT_NAME], file[CT_EXPORT_NAME];
    const uint32_t frame = t->x->trace->definitions.nodes[a->node].frame;
    uint64_t *at = ct_map_add(&t->known, (uint64_t)a->location << 32 | frame);
    if (!*at) {
        const struct ct_frame_names names = ct_frame_names_get(a, label, sizeof label);
        ct_export_text(name, names.function.at, names.function.length);
        ct_export_string(t->x, names.file, file);
        *at = append(t, name, file, names.line, names.address) + UINT64_C(1);
    }
    return (uint32_t)(*at - 1);
}

static void push(struct ct_frame_table *t, uint32_t frame) {
    CT_HEAP_GROW(t->stack, t->depth, t->depth_room);
    t->stack[t->depth++] = frame;
}

void ct_frame_table_read(struct ct_frame_table *t, enum ct_holding_kind kind, uint32_t stack) {
    char label[CT_EXPORT_NAME];
    t->depth = 0;
    if (stack)
        for (struct ct_shown_frames a = ct_call_sites_shown_frames(t->x->sites, stack); a.node;
             ct_call_sites_next_frame(&a))
            push(t, add_shown(t, &a));
    if (t->depth)
        return;
    ct_site_groups_label(t->x->sites, kind, stack, label, sizeof label);
    push(t, add_name(t, label));
}
