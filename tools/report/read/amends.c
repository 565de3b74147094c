// SPDX-License-Identifier: Apache-2.0
// Entries in lists by thread and time, newest first.
#include "read/amends.h"

#include "base/heap.h"

enum { HAS_RESULT = 1, HAS_DURATION = 2, HAS_STACK = 4 };

struct ct_amends_entry {
    uint64_t t_ns;
    uint64_t duration_ns;
    uint32_t thread, stack;
    int32_t result;
    uint32_t present; // HAS_*
    uint32_t older;   // the next entry of the list, 0: none
};

// Times in the same span share a list, so that an event whose time was rounded down finds the entry
// with the exact time.
#define LIST_SPAN_NS UINT64_C(16384)

static uint64_t list_key(uint32_t thread, uint64_t span) {
    return span ^ (uint64_t)thread << 44;
}

static uint32_t thread_of(const struct ct_event *e) {
    return CT_HAS(e, thread) ? e->thread : 0;
}

void ct_amends_add(struct ct_amends *a, const struct ct_event *e) {
    struct ct_amends_entry entry = {.t_ns = CT_HAS(e, amends_ns) ? e->amends_ns : 0,
                                    .thread = thread_of(e)};
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
    if (!a->count)
        a->count = 1; // entry 0 means none
    while (a->count >= a->capacity)
        a->entries = ct_heap_resize(a->entries, a->capacity = a->capacity ? a->capacity * 2 : 16,
                                    sizeof *a->entries);
    uint64_t *newest = ct_map_add(&a->lists, list_key(entry.thread, entry.t_ns / LIST_SPAN_NS));
    entry.older = (uint32_t)*newest;
    a->entries[a->count] = entry;
    *newest = a->count++;
}

// Applies one list. `done` has the HAS_* that newer entries have set. Returns them with those set
// here.
static uint32_t apply_list(const struct ct_amends *a, struct ct_event *e, uint64_t key,
                           uint64_t span, uint32_t done) {
    const uint32_t thread = thread_of(e);
    const uint64_t *newest = ct_map_find(&a->lists, key);
    for (uint64_t i = newest ? *newest : 0; i; i = a->entries[i].older) {
        const struct ct_amends_entry *entry = &a->entries[i];
        if (entry->thread != thread || entry->t_ns - e->t_ns >= span)
            continue;
        const uint32_t set = entry->present & ~done;
        if (set & HAS_RESULT)
            CT_SET(e, result, entry->result);
        if (set & HAS_DURATION)
            CT_SET(e, duration_ns, entry->duration_ns);
        if (set & HAS_STACK)
            CT_SET(e, stack, entry->stack);
        done |= entry->present;
    }
    return done;
}

void ct_amends_apply(const struct ct_amends *a, struct ct_event *e, uint64_t span) {
    if (!a->count)
        return;
    const uint64_t first = e->t_ns / LIST_SPAN_NS, last = (e->t_ns + span - 1) / LIST_SPAN_NS;
    uint32_t done = 0;
    for (uint64_t i = first; i <= last; i++)
        done = apply_list(a, e, list_key(thread_of(e), i), span, done);
}

void ct_amends_free(struct ct_amends *a) {
    ct_map_free(&a->lists);
    free(a->entries);
    *a = (struct ct_amends){0};
}
