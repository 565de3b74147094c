// SPDX-License-Identifier: Apache-2.0
// Folded stacks: a line for each stack, its frames from the outermost one, separated by ';', and
// the bytes that it holds. Brendan Gregg's flamegraph.pl defines the format.
#include <inttypes.h>

#include "export/export.h"

struct line {
    char *text;
    uint64_t bytes;
};

struct lines {
    struct line *list;
    size_t count, room;
    char **frames; // labels of the present stack, innermost first
    size_t depth, depth_room;
};

// A ';' in a name would begin another frame.
static void push_frame(struct lines *l, const char *label) {
    CT_HEAP_GROW(l->frames, l->depth, l->depth_room);
    char *copy = ct_heap_copy_text(label);
    for (char *at = copy; (at = strchr(at, ';'));)
        *at = ':';
    l->frames[l->depth++] = copy;
}

static void add_line(struct lines *l, const char *root, uint64_t bytes) {
    char *text;
    size_t size;
    FILE *to = ct_heap_open_text(&text, &size);
    fputs(root, to);
    while (l->depth) {
        char *frame = l->frames[--l->depth];
        fprintf(to, ";%s", frame);
        free(frame);
    }
    ct_heap_close_text(to);
    CT_HEAP_GROW(l->list, l->count, l->room);
    l->list[l->count++] = (struct line){text, bytes};
}

static void add_held(struct lines *l, struct ct_export *x, const struct ct_export_held *held) {
    char root[40], label[CT_EXPORT_NAME];
    ct_export_device_title(held->device, root, sizeof root);
    for (size_t i = 0; i < held->totals.holding_count; i++) {
        const struct ct_holding *h = &held->totals.holdings[i];
        struct ct_shown_frames a = {0};
        if (h->stack)
            a = ct_call_sites_shown_frames(x->sites, h->stack);
        for (; a.node; ct_call_sites_next_frame(&a)) {
            ct_call_sites_shown_label(&a, label, sizeof label);
            push_frame(l, label);
        }
        if (!l->depth) {
            ct_site_groups_label(x->sites, h->kind, h->stack, label, sizeof label);
            push_frame(l, label);
        }
        add_line(l, root, h->bytes);
    }
}

static int compare_lines(const void *a, const void *b) {
    const struct line *left = a, *right = b;
    return strcmp(left->text, right->text);
}

int ct_export_write_folded(struct ct_export *x, struct ct_error *error) {
    struct lines l = {0};
    size_t n;
    const struct ct_export_held *held = ct_export_get_held(x, x->wanted, &n);
    (void)error;
    for (size_t i = 0; i < n; i++)
        add_held(&l, x, &held[i]);
    if (l.count)
        qsort(l.list, l.count, sizeof *l.list, compare_lines);
    for (size_t i = 0; i < l.count;) {
        uint64_t bytes = 0;
        size_t end = i;
        for (; end < l.count && strcmp(l.list[end].text, l.list[i].text) == 0; end++)
            bytes += l.list[end].bytes;
        fprintf(x->out, "%s %" PRIu64 "\n", l.list[i].text, bytes);
        x->entries++;
        i = end;
    }
    for (size_t i = 0; i < l.count; i++)
        free(l.list[i].text);
    free(l.list);
    free(l.frames);
    return 0;
}
