// SPDX-License-Identifier: Apache-2.0
// Groups by label.
#include "groups.h"

static int same(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const struct ct_groups *)owner)->list[id - 1].label, key) == 0;
}

struct ct_group *ct_groups_at(struct ct_groups *g, struct ct_sites *s, uint32_t stack) {
    char label[400];
    ct_site_label(s, stack, label, sizeof label);
    const size_t length = strlen(label);
    uint32_t *slot = ct_set_slot(&g->set, ct_hash_bytes(label, length), same, g, label);
    if (!*slot) {
        CT_GROW(g->list, g->count, g->capacity);
        g->list[g->count] = (struct ct_group){.stack = stack};
        g->list[g->count].label = ct_resize(NULL, length + 1, 1);
        memcpy(g->list[g->count].label, label, length + 1);
        *slot = (uint32_t)++g->count;
    }
    return &g->list[*slot - 1];
}

void ct_groups_of(struct ct_groups *g, struct ct_sites *s, const struct ct_holding *h, size_t n) {
    *g = (struct ct_groups){0};
    for (size_t i = 0; i < n;
         i++) { // the most bytes first: the first stack of a group is its largest
        struct ct_group *group = ct_groups_at(g, s, h[i].stack);
        group->bytes += h[i].bytes;
        group->count += h[i].count;
        group->stacks++;
    }
    ct_groups_sort(g);
}

static int by_bytes(const void *a, const void *b) {
    const struct ct_group *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->label, y->label);
}

void ct_groups_sort(struct ct_groups *g) {
    if (g->count)
        qsort(g->list, g->count, sizeof *g->list, by_bytes);
    ct_set_clear(&g->set); // its numbers are those of the old order
}

void ct_groups_free(struct ct_groups *g) {
    for (size_t i = 0; i < g->count; i++)
        free(g->list[i].label);
    free(g->list);
    ct_set_clear(&g->set);
    *g = (struct ct_groups){0};
}
