// SPDX-License-Identifier: Apache-2.0
// The pairs of INFO whose keys say what was run, and not what happened in the run.
#include "compare/fact_differences.h"

#include <string.h>

static const struct {
    const char *prefix; // or a whole key
    enum ct_fact_kind kind;
    int is_whole;
    int is_kept; // the name that is shown has the prefix
} rows[] = {
    {"version.", CT_FACT_VERSION, 0, 0},
    {"torch.version", CT_FACT_VERSION, 1, 1},
    {"python.version", CT_FACT_VERSION, 1, 1},
    {"cuda.driver_version", CT_FACT_VERSION, 1, 1},
    {"cuda.runtime.", CT_FACT_VERSION, 0, 1},
    {"nvidia.driver_version", CT_FACT_VERSION, 1, 1},
    {"host.kernel", CT_FACT_VERSION, 1, 1},
    {"cutrace.version", CT_FACT_VERSION, 1, 1},
    {"flag.", CT_FACT_FLAG, 0, 0},
    {"process.env.", CT_FACT_ENVIRONMENT, 0, 0},
    {"option.", CT_FACT_OPTION, 0, 0},
};

static const char origin[] = ".from"; // which process a flag was given to

static int ends_with(struct ct_string s, const char *end) {
    const size_t n = strlen(end);
    return s.length >= n && memcmp(s.at + s.length - n, end, n) == 0;
}

// Returns the row of a key, or -1, and the name that is shown.
static int find_row(struct ct_string key, struct ct_string *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t n = strlen(rows[i].prefix);
        if (key.length < n || memcmp(key.at, rows[i].prefix, n) != 0 ||
            (rows[i].is_whole ? key.length != n : key.length == n))
            continue;
        if (rows[i].kind == CT_FACT_FLAG && ends_with(key, origin))
            return -1;
        const uint32_t cut = rows[i].is_kept ? 0 : (uint32_t)n;
        *name = (struct ct_string){key.at + cut, key.length - cut};
        return (int)i;
    }
    return -1;
}

static int is_same(const struct ct_string *a, const struct ct_string *b) {
    return a && b && a->length == b->length && (!a->length || !memcmp(a->at, b->at, a->length));
}

static void add(struct ct_fact_differences *f, enum ct_fact_kind kind, struct ct_string name,
                const struct ct_string *a, const struct ct_string *b) {
    if (is_same(a, b) || (!a && !b))
        return;
    CT_HEAP_GROW(f->list, f->count, f->room);
    f->list[f->count++] = (struct ct_fact_difference){kind, name, {a, b}};
}

static uint64_t hash_of(struct ct_string s) {
    return s.length ? ct_hash_bytes(s.at, s.length) : 0;
}

// Hash of a key -> position of its pair, + 1.
static struct ct_map index_keys(const struct ct_definitions *n) {
    struct ct_map index = {0};
    for (size_t i = 1; i < n->info_count; i++)
        *ct_map_add(&index, hash_of(n->strings[n->info[i].key])) = i;
    return index;
}

static const struct ct_string *find_value(const struct ct_definitions *n, const struct ct_map *of,
                                          struct ct_string key) {
    const uint64_t *at = ct_map_find(of, hash_of(key));
    if (!at || !is_same(&n->strings[n->info[*at].key], &key))
        return NULL;
    return &n->strings[n->info[*at].value];
}

// Adds the pairs of one side; `is_second`: only those that the first one lacks.
static void add_pairs(struct ct_fact_differences *f, const struct ct_definitions *n,
                      const struct ct_definitions *other, int is_second) {
    struct ct_map of = index_keys(other);
    struct ct_string name;
    for (size_t i = 1; i < n->info_count; i++) {
        const struct ct_string key = n->strings[n->info[i].key],
                               *own = &n->strings[n->info[i].value];
        const int row = find_row(key, &name);
        const struct ct_string *value = row < 0 ? NULL : find_value(other, &of, key);
        if (row < 0 || (is_second && value))
            continue;
        add(f, rows[row].kind, name, is_second ? value : own, is_second ? own : value);
    }
    ct_map_free(&of);
}

static int compare_differences(const void *a, const void *b) {
    const struct ct_fact_difference *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return ct_string_compare(x->name, y->name);
}

void ct_fact_differences_find(struct ct_fact_differences *f, const struct ct_definitions *a,
                              const struct ct_definitions *b) {
    *f = (struct ct_fact_differences){0};
    add_pairs(f, a, b, 0);
    add_pairs(f, b, a, 1);
    if (f->count)
        qsort(f->list, f->count, sizeof *f->list, compare_differences);
}

void ct_fact_differences_find_device(struct ct_fact_differences *f, const struct ct_definitions *a,
                                     int device_a, const struct ct_definitions *b, int device_b) {
    static const char *const names[] = {"name", "total_bytes", "compute_capability"};
    *f = (struct ct_fact_differences){0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add(f, CT_FACT_DEVICE, (struct ct_string){names[i], (uint32_t)strlen(names[i])},
            ct_definitions_device_info(a, device_a, names[i]),
            ct_definitions_device_info(b, device_b, names[i]));
}

const char *ct_fact_kind_name(enum ct_fact_kind kind) {
    static const char *const names[] = {"version", "flag", "environment", "option", "device"};
    return names[kind];
}

void ct_fact_differences_free(struct ct_fact_differences *f) {
    free(f->list);
    *f = (struct ct_fact_differences){0};
}
