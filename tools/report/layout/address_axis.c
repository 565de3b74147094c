// SPDX-License-Identifier: Apache-2.0
#include "layout/address_axis.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

// While ranges are added there may be more of them, so that early ones do not decide which are
// joined.
enum { MOST_WHILE_ADDING = 4096 };

static uint64_t end_of(const struct ct_address_range *r) {
    return r->start + r->bytes;
}

// The position of the first range that ends at an address or after it.
static size_t find_position(const struct ct_address_axis *a, uint64_t address) {
    size_t from = 0, to = a->count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (end_of(&a->ranges[middle]) < address)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

// Makes one range of those at the positions [from, to), with the gaps between them.
static void join(struct ct_address_axis *a, size_t from, size_t to) {
    const uint64_t end = end_of(&a->ranges[to - 1]);
    a->ranges[from].bytes = end - a->ranges[from].start;
    memmove(&a->ranges[from + 1], &a->ranges[to], (a->count - to) * sizeof *a->ranges);
    a->count -= to - from - 1;
}

static uint64_t gap_behind(const struct ct_address_axis *a, size_t i) {
    return a->ranges[i + 1].start - end_of(&a->ranges[i]);
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Joins neighbours until at most so many ranges are left, those with the smallest gaps first.
static void thin(struct ct_address_axis *a, size_t most) {
    if (a->count <= most)
        return;
    uint64_t *gaps = ct_heap_alloc_zeroed(a->count, sizeof *gaps);
    for (size_t i = 0; i + 1 < a->count; i++)
        gaps[i] = gap_behind(a, i);
    qsort(gaps, a->count - 1, sizeof *gaps, compare);
    const uint64_t limit = gaps[a->count - most - 1];
    free(gaps);
    for (size_t i = 0; i + 1 < a->count && a->count > most;)
        if (gap_behind(a, i) <= limit)
            join(a, i, i + 2);
        else
            i++;
}

void ct_address_axis_add(struct ct_address_axis *a, uint64_t start, uint64_t bytes) {
    if (!bytes || start + bytes < start)
        return;
    const size_t at = find_position(a, start);
    if (at < a->count && a->ranges[at].start <= start && end_of(&a->ranges[at]) >= start + bytes)
        return;
    if (at == a->count || a->ranges[at].start > start + bytes) {
        CT_HEAP_GROW(a->ranges, a->count, a->room);
        memmove(&a->ranges[at + 1], &a->ranges[at], (a->count - at) * sizeof *a->ranges);
        a->ranges[at] = (struct ct_address_range){.start = start, .bytes = bytes};
        a->count++;
    } else {
        const uint64_t end = start + bytes;
        size_t to = at + 1;
        if (start < a->ranges[at].start) {
            a->ranges[at].bytes = end_of(&a->ranges[at]) - start;
            a->ranges[at].start = start;
        }
        if (end > end_of(&a->ranges[at]))
            a->ranges[at].bytes = end - a->ranges[at].start;
        while (to < a->count && a->ranges[to].start <= end_of(&a->ranges[at])) {
            if (end_of(&a->ranges[to]) > end_of(&a->ranges[at]))
                a->ranges[at].bytes = end_of(&a->ranges[to]) - a->ranges[at].start;
            to++;
        }
        join(a, at, to);
    }
    if (a->count == MOST_WHILE_ADDING)
        thin(a, MOST_WHILE_ADDING / 2);
}

void ct_address_axis_finish(struct ct_address_axis *a) {
    uint64_t all = 0;
    thin(a, CT_ADDRESS_RANGES);
    for (size_t i = 0; i < a->count; i++)
        all += a->ranges[i].bytes;
    for (size_t i = 0; i < a->count; i++) {
        struct ct_address_range *r = &a->ranges[i];
        const unsigned share =
            (unsigned)((unsigned __int128)r->bytes * (CT_ADDRESS_ROWS - a->count) / all);
        r->first_row = a->rows;
        r->rows = share + 1;
        a->rows += r->rows;
    }
}

const struct ct_address_range *ct_address_axis_find(const struct ct_address_axis *a,
                                                    uint64_t address) {
    const size_t at = find_position(a, address + 1); // (its end is not of it)
    return at < a->count && a->ranges[at].start <= address ? &a->ranges[at] : NULL;
}

void ct_address_axis_free(struct ct_address_axis *a) {
    free(a->ranges);
    *a = (struct ct_address_axis){0};
}
