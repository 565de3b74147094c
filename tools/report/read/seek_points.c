// SPDX-License-Identifier: Apache-2.0
#include "read/seek_points.h"

#include <cutrace/model/checkpoint.h>
#include <stdlib.h>

#include "base/heap.h"

enum { NOT_BEGUN = -1 };

// Whether a reader can begin at the chunk: its dictionaries begin here, too.
static int begins(const struct ct_index_chunk *c) {
    return c->head.flags & CT_CHUNK_RESTART && c->head.dict_seq == c->head.seq &&
           c->checkpoint & CT_CHECKPOINT_FIRST;
}

// Whether the chunk cannot belong to a checkpoint that began before it.
static int interrupts(const struct ct_index_chunk *c) {
    return c->bad || c->gap || !c->has_checkpoint || c->checkpoint & CT_CHECKPOINT_FIRST;
}

static void add(struct ct_seek_points *p, const struct ct_seek_point *point) {
    CT_HEAP_GROW(p->list, p->count, p->room);
    p->list[p->count++] = *point;
}

void ct_seek_points_find(struct ct_seek_points *p, const struct ct_index *index) {
    long long first = NOT_BEGUN;
    *p = (struct ct_seek_points){0};
    for (size_t i = 1; i < index->count; i++) { // nothing is gained by the first chunk
        const struct ct_index_chunk *c = &index->chunks[i];
        if (interrupts(c))
            first = NOT_BEGUN;
        if (!c->bad && begins(c))
            first = (long long)i;
        if (first == NOT_BEGUN || c->checkpoint & CT_CHECKPOINT_INEXACT ||
            !(c->checkpoint & CT_CHECKPOINT_LAST))
            continue;
        add(p, &(struct ct_seek_point){(size_t)first, i, c->head.first_event});
        first = NOT_BEGUN;
    }
}

void ct_seek_points_free(struct ct_seek_points *p) {
    free(p->list);
    *p = (struct ct_seek_points){0};
}
