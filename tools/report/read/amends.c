// SPDX-License-Identifier: Apache-2.0
// Entries in the order of threads and times, one for each time: an event finds its own by halving.
#include "read/amends.h"

#include <cutrace/format/assert.h>
#include <stdlib.h>

#include "base/heap.h"

enum { HAS_RESULT = 1, HAS_DURATION = 2, HAS_STACK = 4 };

// An event has one correction, and its time is its own, to the tick. A trace that has more in a
// tick contradicts itself: of the times after so many, none is looked at.
enum { MOST_IN_A_TICK = 64 };

struct ct_amends_entry {
    uint64_t t_ns;
    uint64_t duration_ns;
    size_t order; // in the trace
    uint32_t thread, stack;
    int32_t result;
    uint32_t present; // HAS_*
};

void ct_amends_add(struct ct_amends *a, const struct ct_event *e) {
    struct ct_amends_entry entry = {.t_ns = CT_GET(e, amends_ns), .thread = CT_GET(e, thread)};
    if (CT_HAS(e, result)) {
        entry.present |= HAS_RESULT;
        entry.result = e->result;
    }
    if (CT_HAS(e, duration_ns)) {
        entry.present |= HAS_DURATION;
        entry.duration_ns = e->duration_ns;
    }
    if (CT_HAS(e, stack)) {
        entry.present |= HAS_STACK;
        entry.stack = e->stack;
    }
    if (!entry.t_ns || !entry.present)
        return;
    CT_HEAP_GROW(a->entries, a->count, a->capacity);
    entry.order = a->count;
    a->entries[a->count++] = entry;
    a->is_sorted = 0;
}

static int compare_places(const struct ct_amends_entry *x, uint32_t thread, uint64_t t_ns) {
    if (x->thread != thread)
        return x->thread < thread ? -1 : 1;
    return x->t_ns < t_ns ? -1 : x->t_ns > t_ns;
}

static int compare(const void *a, const void *b) {
    const struct ct_amends_entry *x = a, *y = b;
    const int places = compare_places(x, y->thread, y->t_ns);
    return places ? places : x->order < y->order ? -1 : x->order > y->order;
}

static void merge(struct ct_amends_entry *to, const struct ct_amends_entry *later) {
    if (later->present & HAS_RESULT)
        to->result = later->result;
    if (later->present & HAS_DURATION)
        to->duration_ns = later->duration_ns;
    if (later->present & HAS_STACK)
        to->stack = later->stack;
    to->present |= later->present;
}

void ct_amends_sort(struct ct_amends *a) {
    size_t kept = 0;
    if (a->count)
        qsort(a->entries, a->count, sizeof *a->entries, compare);
    for (size_t i = 0; i < a->count; i++) {
        const struct ct_amends_entry *e = &a->entries[i];
        if (kept && !compare_places(&a->entries[kept - 1], e->thread, e->t_ns))
            merge(&a->entries[kept - 1], e);
        else
            a->entries[kept++] = *e;
    }
    a->count = kept;
    a->is_sorted = 1;
}

// The first entry of a thread at a time or after it, or of a later thread.
static size_t find_first(const struct ct_amends *a, uint32_t thread, uint64_t t_ns) {
    size_t from = 0, to = a->count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (compare_places(&a->entries[middle], thread, t_ns) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

void ct_amends_apply(const struct ct_amends *a, struct ct_event *e, uint64_t span) {
    const uint32_t thread = CT_GET(e, thread);
    if (!a->count)
        return;
    CT_ASSERT(a->is_sorted);
    const size_t first = find_first(a, thread, e->t_ns);
    for (size_t i = first; i < a->count && i - first < MOST_IN_A_TICK; i++) {
        const struct ct_amends_entry *entry = &a->entries[i];
        if (entry->thread != thread || entry->t_ns - e->t_ns >= span)
            return;
        if (entry->present & HAS_RESULT)
            CT_SET(e, result, entry->result);
        if (entry->present & HAS_DURATION)
            CT_SET(e, duration_ns, entry->duration_ns);
        if (entry->present & HAS_STACK)
            CT_SET(e, stack, entry->stack);
    }
}

void ct_amends_free(struct ct_amends *a) {
    free(a->entries);
    *a = (struct ct_amends){0};
}
