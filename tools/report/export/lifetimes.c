// SPDX-License-Identifier: Apache-2.0
#include "export/lifetimes.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_sizes(const void *a, const void *b) {
    const struct ct_lifetime *x = a, *y = b;
    const int c = compare_numbers(y->bytes, x->bytes);
    return c ? c : compare_numbers(x->event, y->event);
}

static int compare_begins(const void *a, const void *b) {
    const struct ct_lifetime *x = a, *y = b;
    const int c = compare_numbers(x->from_ns, y->from_ns);
    return c ? c : compare_numbers(x->event, y->event);
}

// Keeps the largest.
static void cut(struct ct_lifetimes *l) {
    if (l->count <= CT_LIFETIMES)
        return;
    qsort(l->list, l->count, sizeof *l->list, compare_sizes);
    while (l->count > CT_LIFETIMES)
        free(l->list[--l->count].site);
}

void ct_lifetimes_add(struct ct_lifetimes *l, const struct ct_lifetime *a, const char *site) {
    l->all++;
    if (l->count == 2 * (size_t)CT_LIFETIMES)
        cut(l);
    CT_HEAP_GROW(l->list, l->count, l->capacity);
    struct ct_lifetime *to = &l->list[l->count++];
    *to = *a;
    to->site = ct_heap_copy_text(site);
}

unsigned ct_lifetimes_arrange(struct ct_lifetimes *l) {
    uint64_t end[CT_LIFETIMES]; // of the last one on each track
    unsigned lanes = 0;
    cut(l);
    if (l->count)
        qsort(l->list, l->count, sizeof *l->list, compare_begins);
    for (size_t i = 0; i < l->count; i++) {
        struct ct_lifetime *a = &l->list[i];
        for (a->lane = 0; a->lane < lanes && end[a->lane] > a->from_ns; a->lane++)
            ;
        lanes += a->lane == lanes;
        end[a->lane] = a->to_ns;
    }
    return lanes;
}

void ct_lifetimes_free(struct ct_lifetimes *l) {
    for (size_t i = 0; i < l->count; i++)
        free(l->list[i].site);
    free(l->list);
    *l = (struct ct_lifetimes){0};
}
