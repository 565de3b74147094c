// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

static int is_same(const void *owner, uint32_t id, const void *key) {
    const struct ct_names *n = owner;
    return strcmp(n->list[id - 1], key) == 0;
}

uint32_t ct_names_add(struct ct_names *n, const char *text) {
    uint32_t *at = ct_id_set_slot(&n->set, ct_hash_bytes(text, strlen(text)), is_same, n, text);
    if (*at)
        return *at;
    CT_HEAP_GROW(n->list, n->count, n->room);
    n->list[n->count++] = ct_heap_copy_text(text);
    return *at = (uint32_t)n->count;
}

void ct_names_free(struct ct_names *n) {
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    free(n->list);
    ct_id_set_free(&n->set);
}
