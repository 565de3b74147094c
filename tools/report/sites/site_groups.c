// SPDX-License-Identifier: Apache-2.0
// A hash set of labels finds the group of a stack.
#include "sites/site_groups.h"

#include <cutrace/format/assert.h>

enum { MAX_DEPTH = 6, LABEL = 1200 };

static int is_group(const void *owner, uint32_t id, const void *key) {
    const struct ct_site_groups *g = owner;
    const struct ct_site_group *wanted = key;
    return g->list && g->list[id - 1].kind == wanted->kind &&
           strcmp(g->list[id - 1].label, wanted->label) == 0;
}

void ct_site_groups_label(struct ct_call_sites *s, enum ct_holding_kind kind, uint32_t stack,
                          char *to, size_t size) {
    if (kind == CT_HOLDING_IDLE)
        (void)snprintf(to, size, "idle in PyTorch's pool");
    else
        ct_call_sites_label(s, stack, to, size);
}

static uint64_t hash_group(enum ct_holding_kind kind, const char *label) {
    return ct_hash_bytes(label, strlen(label)) ^ ct_hash_mix(kind);
}

size_t ct_site_groups_find(const struct ct_site_groups *g, struct ct_call_sites *s,
                           enum ct_holding_kind kind, uint32_t stack) {
    char label[LABEL];
    ct_site_groups_label(s, kind, stack, label, sizeof label);
    const struct ct_site_group wanted = {.kind = kind, .label = label};
    return ct_id_set_find(&g->set, hash_group(kind, label), is_group, g, &wanted);
}

struct ct_site_group *ct_site_groups_get(struct ct_site_groups *g, struct ct_call_sites *s,
                                         enum ct_holding_kind kind, uint32_t stack) {
    char label[LABEL];
    ct_site_groups_label(s, kind, stack, label, sizeof label);
    const struct ct_site_group wanted = {.kind = kind, .label = label};
    const size_t length = strlen(label);
    CT_ASSERT(g->set.count == g->count);
    uint32_t *slot = ct_id_set_slot(&g->set, hash_group(kind, label), is_group, g, &wanted);
    if (!*slot) {
        CT_HEAP_GROW(g->list, g->count, g->capacity);
        g->list[g->count] = (struct ct_site_group){.kind = kind, .stack = stack};
        g->list[g->count].label = ct_heap_resize(NULL, length + 1, 1);
        memcpy(g->list[g->count].label, label, length + 1);
        *slot = (uint32_t)++g->count;
    }
    return &g->list[*slot - 1];
}

unsigned ct_site_groups_depth(const struct ct_call_sites *s, uint32_t stack) {
    return stack < s->depth_count && s->depth[stack] ? s->depth[stack] : 1;
}

void ct_site_groups_set_depth(struct ct_call_sites *s, uint32_t stack, unsigned depth) {
    if (stack >= s->depth_count) {
        const size_t before = s->depth_count;
        s->depth_count = s->definitions->stack_count;
        s->depth = ct_heap_resize(s->depth, s->depth_count, 1);
        memset(s->depth + before, 0, s->depth_count - before);
    }
    s->depth[stack] = (uint8_t)depth;
}

// Sets the label depth of a group's stacks to the least at which they have more than one label, or
// to 1 if none does.
static void tell_apart(struct ct_call_sites *s, const uint32_t *stacks, size_t n) {
    char first[LABEL], label[LABEL];
    for (unsigned depth = 2; depth <= MAX_DEPTH; depth++) {
        int differ = 0;
        for (size_t i = 0; i < n; i++) {
            ct_site_groups_set_depth(s, stacks[i], depth);
            ct_call_sites_label(s, stacks[i], i ? label : first, LABEL);
            differ |= i && strcmp(first, label) != 0;
        }
        if (differ)
            return;
    }
    for (size_t i = 0; i < n; i++)
        ct_site_groups_set_depth(s, stacks[i], 1);
}

void ct_site_groups_refine(struct ct_call_sites *s, const struct ct_holding *h, size_t n) {
    struct ct_site_groups groups;
    uint64_t whole = 0;
    ct_site_groups_build(&groups, s, h, n);
    for (size_t i = 0; i < groups.count; i++)
        whole += groups.list[i].bytes;
    uint32_t *stacks = ct_heap_resize(NULL, n, sizeof *stacks);
    for (size_t g = 0; g < groups.count && groups.list[g].bytes > whole / 5; g++) {
        size_t count = 0;
        if (groups.list[g].stacks < 2)
            continue;
        for (size_t i = 0; i < n; i++) {
            char label[LABEL];
            ct_site_groups_label(s, h[i].kind, h[i].stack, label, sizeof label);
            if (h[i].kind == groups.list[g].kind && strcmp(label, groups.list[g].label) == 0)
                stacks[count++] = h[i].stack;
        }
        tell_apart(s, stacks, count);
    }
    free(stacks);
    ct_site_groups_free(&groups);
}

void ct_site_groups_add_resumed(struct ct_site_group *g, const struct ct_holding *h) {
    g->resumed_bytes += h->resumed_bytes;
    if (!g->resumed_by)
        g->resumed_by = h->resumed_by;
}

void ct_site_groups_build(struct ct_site_groups *g, struct ct_call_sites *s,
                          const struct ct_holding *h, size_t n) {
    *g = (struct ct_site_groups){0};
    for (size_t i = 0; i < n; i++) {
        struct ct_site_group *group = ct_site_groups_get(g, s, h[i].kind, h[i].stack);
        group->bytes += h[i].bytes;
        group->count += h[i].count;
        group->stacks++;
        ct_site_groups_add_resumed(group, &h[i]);
    }
    ct_site_groups_sort(g);
}

static int compare_groups(const void *a, const void *b) {
    const struct ct_site_group *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    const int order = strcmp(x->label, y->label);
    return order ? order : (int)x->kind - (int)y->kind;
}

void ct_site_groups_sort(struct ct_site_groups *g) {
    if (g->count)
        qsort(g->list, g->count, sizeof *g->list, compare_groups);
    ct_id_set_free(&g->set); // it has the positions of the old order
    for (size_t i = 0; i < g->count; i++)
        *ct_id_set_slot(&g->set, hash_group(g->list[i].kind, g->list[i].label), is_group, g,
                        &g->list[i]) = (uint32_t)i + 1;
}

void ct_site_groups_free(struct ct_site_groups *g) {
    for (size_t i = 0; i < g->count; i++)
        free(g->list[i].label);
    free(g->list);
    ct_id_set_free(&g->set);
    *g = (struct ct_site_groups){0};
}
