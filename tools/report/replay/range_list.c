// SPDX-License-Identifier: Apache-2.0
#include "replay/range_list.h"

#include <cutrace/format/assert.h>

#include "base/heap.h"

struct ct_listed_range *ct_range_list_find(const struct ct_range_list *s, uint64_t address) {
    struct ct_tree_range found;
    return ct_range_tree_find(&s->order, address, &found) ? &s->list[found.mark] : NULL;
}

void ct_range_list_add(struct ct_range_list *s, const struct ct_listed_range *range) {
    uint32_t at = s->spare;
    CT_ASSERT(range->bytes && !ct_range_list_find_overlap(s, range->start, range->bytes));
    if (at) {
        s->spare = s->list[--at].stack;
    } else {
        CT_HEAP_GROW(s->list, s->count, s->room);
        at = s->count++;
    }
    s->list[at] = *range;
    ct_range_tree_insert_marked(&s->order, range->start, ct_listed_range_end(range), at);
}

void ct_range_list_remove(struct ct_range_list *s, struct ct_listed_range *range) {
    ct_range_tree_erase(&s->order, range->start);
    range->stack = s->spare;
    s->spare = (uint32_t)(range - s->list) + 1;
}

void ct_range_list_free(struct ct_range_list *s) {
    ct_range_tree_clear(&s->order);
    free(s->list);
    *s = (struct ct_range_list){0};
}
