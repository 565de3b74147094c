// SPDX-License-Identifier: Apache-2.0
// Stacks share their outer frames, so each frame of the definitions' call tree is visited once: a
// map remembers its node. Nothing is recursive: a stack may have thousands of frames.
#include "sites/site_tree.h"

#include "sites/site_groups.h"

enum { LABEL = 400 };

// A frame as ct_shown_frames walks it.
struct step {
    struct ct_shown_frames at;
    uint64_t key;
};

struct builder {
    struct ct_site_tree *tree;
    struct ct_call_sites *sites;
    struct ct_map known; // key of a step -> node
    struct step *path;   // innermost first
    size_t length, capacity;
};

// ---- nodes --------------------------------------------------------------------------------------

static const char *intern_label(struct ct_site_tree *t, const char *label) {
    const uint32_t number = ct_names_add(&t->labels, label); // (may move the list)
    return t->labels.list[number - 1];
}

static int is_node(const void *owner, uint32_t id, const void *key) {
    const struct ct_site_tree *t = owner;
    const struct ct_site_tree_node *wanted = key;
    return t->nodes[id].parent == wanted->parent && t->nodes[id].label == wanted->label;
}

static uint32_t add_node(struct ct_site_tree *t, const struct ct_site_tree_node *node) {
    CT_HEAP_GROW(t->nodes, t->count, t->capacity);
    t->nodes[t->count] = *node;
    return (uint32_t)t->count++;
}

static uint32_t get_child(struct ct_site_tree *t, uint32_t parent, const char *label) {
    const struct ct_site_tree_node wanted = {.parent = parent, .label = intern_label(t, label)};
    const uint64_t hash = ct_hash_mix((uint64_t)(uintptr_t)wanted.label ^ ct_hash_mix(parent));
    uint32_t *slot = ct_id_set_slot(&t->set, hash, is_node, t, &wanted);
    if (!*slot)
        *slot = add_node(t, &wanted);
    return *slot;
}

// ---- stacks -------------------------------------------------------------------------------------

static uint64_t make_key(const struct ct_shown_frames *a) {
    return (uint64_t)a->node << 32 | (uint64_t)a->location << 3 | a->rank;
}

// Collects the frames of a stack up to one whose node is known. Returns that node, or the root.
static uint32_t collect_path(struct builder *b, uint32_t stack) {
    struct ct_shown_frames a = ct_call_sites_shown_frames(b->sites, stack);
    for (b->length = 0; a.node; ct_call_sites_next_frame(&a)) {
        const struct step step = {a, make_key(&a)};
        const uint64_t *node = ct_map_find(&b->known, step.key);
        if (node)
            return (uint32_t)*node;
        CT_HEAP_GROW(b->path, b->length, b->capacity);
        b->path[b->length++] = step;
    }
    return 0;
}

static uint32_t find_node(struct builder *b, enum ct_holding_kind kind, uint32_t stack) {
    char label[LABEL];
    if (kind == CT_HOLDING_IDLE || !stack) {
        ct_site_groups_label(b->sites, kind, stack, label, sizeof label);
        return get_child(b->tree, 0, label);
    }
    uint32_t node = collect_path(b, stack);
    const char *end = ct_call_sites_end_text(b->sites->definitions, stack);
    if (!node && end) { // what is above the outermost frame is not known
        (void)snprintf(label, sizeof label, "(%s)", end);
        node = get_child(b->tree, 0, label);
    }
    while (b->length) {
        const struct step *step = &b->path[--b->length];
        ct_call_sites_shown_label(&step->at, label, sizeof label);
        node = get_child(b->tree, node, label);
        *ct_map_add(&b->known, step->key) = node;
    }
    return node;
}

static void add_holdings(struct ct_site_tree *t, struct ct_call_sites *sites,
                         const struct ct_holding *holdings, size_t n) {
    struct builder b = {.tree = t, .sites = sites};
    for (size_t i = 0; i < n; i++) {
        const uint32_t node = find_node(&b, holdings[i].kind, holdings[i].stack);
        t->nodes[node].own_bytes += holdings[i].bytes;
        t->nodes[node].own_count += holdings[i].count;
    }
    ct_map_free(&b.known);
    free(b.path);
}

static void sum_children(struct ct_site_tree *t) {
    for (size_t i = t->count; i-- > 0;) { // children have higher numbers
        struct ct_site_tree_node *n = &t->nodes[i];
        n->bytes += n->own_bytes;
        n->count += n->own_count;
        if (!i)
            return;
        t->nodes[n->parent].bytes += n->bytes;
        t->nodes[n->parent].count += n->count;
    }
}

// ---- order --------------------------------------------------------------------------------------

struct entry {
    uint32_t node, first; // `first`: what is compared first
    uint64_t bytes;
    const char *label;
};

static int compare_children(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->label, y->label);
}

static void order_children(struct ct_site_tree *t) {
    const size_t n = t->count - 1;
    struct entry *list = ct_heap_resize(NULL, n, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const struct ct_site_tree_node *node = &t->nodes[i + 1];
        list[i] = (struct entry){(uint32_t)i + 1, node->parent, node->bytes, node->label};
    }
    if (n)
        qsort(list, n, sizeof *list, compare_children);
    t->order = ct_heap_resize(NULL, n, sizeof *t->order);
    for (size_t i = 0; i < n; i++) {
        struct ct_site_tree_node *parent = &t->nodes[list[i].first];
        t->order[i] = list[i].node;
        if (!parent->children++)
            parent->first_child = (uint32_t)i;
    }
    free(list);
}

// ---- rows ---------------------------------------------------------------------------------------

static int goes_on(const struct ct_site_tree_node *n) {
    return n->children == 1 && !n->own_count && !n->own_bytes;
}

uint32_t ct_site_tree_row_end(const struct ct_site_tree *t, uint32_t node) {
    while (node && goes_on(&t->nodes[node]))
        node = t->order[t->nodes[node].first_child];
    return node;
}

static void find_rows(struct ct_site_tree *t) {
    for (size_t i = 1; i < t->count; i++) {
        struct ct_site_tree_node *n = &t->nodes[i];
        const struct ct_site_tree_node *parent = &t->nodes[n->parent];
        n->is_head = !n->parent || !goes_on(parent);
        n->level = parent->level;
        n->head = n->is_head ? (uint32_t)i : parent->head;
        if (n->is_head && n->level <= CT_SITE_TREE_LEVELS)
            n->level++;
    }
}

// The most bytes first; a row comes before those below it, which hold no more.
static int compare_rows(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void choose_rows(struct ct_site_tree *t, size_t rows) {
    struct entry *list = ct_heap_resize(NULL, t->count, sizeof *list);
    size_t n = 0;
    for (size_t i = 1; i < t->count; i++)
        if (t->nodes[i].is_head && t->nodes[i].level <= CT_SITE_TREE_LEVELS)
            list[n++] = (struct entry){(uint32_t)i, t->nodes[i].level, t->nodes[i].bytes, NULL};
    if (n)
        qsort(list, n, sizeof *list, compare_rows);
    for (size_t i = 0; i < n && (!rows || i < rows); i++)
        t->nodes[list[i].node].shown = 1;
    t->nodes[0].shown = 1;
    free(list);
}

// A row that would stand for a single leaf is as long as the leaf's own.
static void show_single_leaves(struct ct_site_tree *t) {
    uint32_t *left_out = ct_heap_alloc_zeroed(t->count, sizeof *left_out); // children of each node
    for (size_t i = 1; i < t->count; i++)
        if (t->nodes[i].is_head)
            left_out[t->nodes[i].parent] += !t->nodes[i].shown;
    for (size_t i = 1; i < t->count; i++) {
        struct ct_site_tree_node *n = &t->nodes[i];
        if (!n->is_head || n->shown || left_out[n->parent] != 1 || n->level > CT_SITE_TREE_LEVELS ||
            t->nodes[ct_site_tree_row_end(t, (uint32_t)i)].children)
            continue;
        n->shown = t->nodes[t->nodes[n->parent].head].shown;
    }
    free(left_out);
}

void ct_site_tree_build(struct ct_site_tree *t, struct ct_call_sites *sites,
                        const struct ct_holding *holdings, size_t n, size_t rows) {
    const struct ct_site_tree_node root = {.label = ""};
    *t = (struct ct_site_tree){0};
    (void)add_node(t, &root);
    add_holdings(t, sites, holdings, n);
    sum_children(t);
    order_children(t);
    find_rows(t);
    choose_rows(t, rows);
    show_single_leaves(t);
}

void ct_site_tree_free(struct ct_site_tree *t) {
    ct_names_free(&t->labels);
    free(t->nodes);
    free(t->order);
    ct_id_set_free(&t->set);
    *t = (struct ct_site_tree){0};
}
