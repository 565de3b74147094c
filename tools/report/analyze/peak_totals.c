// SPDX-License-Identifier: Apache-2.0
// The first change of a stack behind a candidate saves the stack's totals, so capturing a candidate
// copies nothing.
#include "analyze/peak_totals.h"

#include <cutrace/format/assert.h>

static void grow_stacks(struct ct_peak_totals *p, uint32_t stack) {
    const size_t before = p->stack_count;
    p->stack_count = before * 2 > stack + 1u ? before * 2 : stack + 64u;
    p->stacks = ct_heap_resize(p->stacks, p->stack_count, sizeof *p->stacks);
    memset(p->stacks + before, 0, (p->stack_count - before) * sizeof *p->stacks);
}

void ct_peak_totals_add(struct ct_peak_totals *p, uint32_t stack, uint64_t bytes, uint64_t count) {
    if (stack >= p->stack_count)
        grow_stacks(p, stack);
    struct ct_stack_at_peak *s = &p->stacks[stack];
    for (unsigned i = 0; i < CT_TOTALS_KINDS; i++) {
        CT_ASSERT(s->saved[i].generation <= p->candidate[i].generation);
        if (s->saved[i].generation == p->candidate[i].generation)
            continue;
        s->saved[i].generation = p->candidate[i].generation;
        s->saved[i].bytes = s->bytes;
        s->saved[i].count = s->count;
    }
    s->bytes += bytes;
    s->count += count;
}

void ct_peak_totals_capture(struct ct_peak_totals *p, enum ct_totals_kind kind,
                            const struct ct_replay *r, int device, uint64_t event) {
    p->candidate[kind].generation++;
    p->candidate[kind].event = event;
    p->candidate[kind].split = ct_replay_split(r, device);
    p->candidate[kind].host_bytes = r->live.host_bytes;
    if (kind == CT_TOTALS_AT_PEAK) // peaks are too frequent to list pools
        return;
    free(p->candidate[kind].pools);
    p->candidate[kind].pools =
        ct_live_at_list_mempools(&r->live, device, &p->candidate[kind].pool_count);
}

static struct ct_holding read_holding(const struct ct_peak_totals *p, enum ct_totals_kind kind,
                                      uint32_t stack) {
    const struct ct_stack_at_peak *s = &p->stacks[stack];
    if (s->saved[kind].generation == p->candidate[kind].generation)
        return (struct ct_holding){stack, s->saved[kind].bytes, s->saved[kind].count};
    return (struct ct_holding){stack, s->bytes, s->count};
}

int ct_peak_totals_get(const struct ct_peak_totals *p, enum ct_totals_kind kind, uint64_t event,
                       struct ct_live_totals *totals) {
    size_t capacity = 0;
    if (!p->candidate[kind].generation || p->candidate[kind].event != event)
        return 0;
    *totals = (struct ct_live_totals){.split = p->candidate[kind].split,
                                      .host_bytes = p->candidate[kind].host_bytes,
                                      .pool_count = p->candidate[kind].pool_count};
    if (totals->pool_count) {
        totals->pools = ct_heap_alloc_zeroed(totals->pool_count, sizeof *totals->pools);
        memcpy(totals->pools, p->candidate[kind].pools, totals->pool_count * sizeof *totals->pools);
    }
    for (size_t i = 0; i < p->stack_count; i++) {
        const struct ct_holding h = read_holding(p, kind, (uint32_t)i);
        if (!h.count)
            continue;
        CT_HEAP_GROW(totals->holdings, totals->holding_count, capacity);
        totals->holdings[totals->holding_count++] = h;
        totals->bytes += h.bytes;
        totals->count += h.count;
    }
    ct_live_at_sort(totals);
    return 1;
}

void ct_peak_totals_free(struct ct_peak_totals *p) {
    free(p->stacks);
    for (unsigned i = 0; i < CT_TOTALS_KINDS; i++)
        free(p->candidate[i].pools);
    memset(p, 0, sizeof *p);
}
