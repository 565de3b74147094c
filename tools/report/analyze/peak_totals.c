// SPDX-License-Identifier: Apache-2.0
// The first change of a stack after a candidate saves the stack's totals, so capturing a candidate
// copies nothing.
#include "analyze/peak_totals.h"

#include <cutrace/format/assert.h>

void ct_peak_totals_grow(struct ct_stacks_at_peak *p, uint32_t stack) {
    const size_t before = p->count;
    p->count = before * 2 > stack + 1u ? before * 2 : stack + 64u;
    p->list = ct_heap_resize(p->list, p->count, sizeof *p->list);
    memset(p->list + before, 0, (p->count - before) * sizeof *p->list);
}

void ct_peak_totals_capture(struct ct_peak_totals *p, enum ct_totals_moment moment,
                            const struct ct_replay *r, int device, uint64_t event) {
    p->candidate[moment].generation++;
    p->candidate[moment].event = event;
    p->candidate[moment].idle = ct_live_at_find_idle(r, device);
    p->candidate[moment].split = ct_replay_split(r, device);
    p->candidate[moment].host_bytes = r->live.host_bytes;
    p->candidate[moment].rounding_bytes = p->rounding_bytes;
    p->candidate[moment].asleep_bytes = ct_live_at_sum_asleep(r, device);
    p->resumers = &r->resumers;
    if (moment == CT_TOTALS_AT_PEAK) // peaks are too frequent to list pools
        return;
    free(p->candidate[moment].pools);
    p->candidate[moment].pools =
        ct_live_at_list_mempools(&r->live, device, &p->candidate[moment].pool_count);
}

struct ct_breakdown ct_peak_totals_split(const struct ct_peak_totals *p,
                                         enum ct_totals_moment moment) {
    return p->candidate[moment].split;
}

static int is_saved(const struct ct_peak_totals *p, enum ct_totals_moment moment,
                    const struct ct_stack_at_peak *s) {
    return s->saved[moment].generation == p->candidate[moment].generation;
}

static struct ct_holding read_holding(const struct ct_peak_totals *p, enum ct_totals_moment moment,
                                      unsigned kind, uint32_t stack) {
    const struct ct_stack_at_peak *s = &p->kind[kind].list[stack];
    struct ct_holding h = {.kind = (enum ct_holding_kind)kind, .stack = stack};
    const int saved = is_saved(p, moment, s);
    h.bytes = saved ? s->saved[moment].bytes : s->bytes;
    h.count = saved ? s->saved[moment].count : s->count;
    if (stack < p->resumed[kind].count) {
        s = &p->resumed[kind].list[stack];
        h.resumed_bytes = is_saved(p, moment, s) ? s->saved[moment].bytes : s->bytes;
    }
    return h;
}

int ct_peak_totals_get(const struct ct_peak_totals *p, enum ct_totals_moment moment, uint64_t event,
                       enum ct_holding_rows rows, struct ct_live_totals *totals) {
    size_t capacity = 0;
    if (!p->candidate[moment].generation || p->candidate[moment].event != event)
        return 0;
    *totals = (struct ct_live_totals){.split = p->candidate[moment].split,
                                      .host_bytes = p->candidate[moment].host_bytes,
                                      .rounding_bytes = p->candidate[moment].rounding_bytes,
                                      .asleep_bytes = p->candidate[moment].asleep_bytes,
                                      .pool_count = p->candidate[moment].pool_count};
    if (totals->pool_count) {
        totals->pools = ct_heap_alloc_zeroed(totals->pool_count, sizeof *totals->pools);
        memcpy(totals->pools, p->candidate[moment].pools,
               totals->pool_count * sizeof *totals->pools);
    }
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++)
        for (size_t i = 0; i < p->kind[kind].count; i++) {
            const struct ct_holding h = read_holding(p, moment, kind, (uint32_t)i);
            if (!h.count)
                continue;
            CT_HEAP_GROW(totals->holdings, totals->holding_count, capacity);
            totals->holdings[totals->holding_count++] = h;
        }
    ct_live_at_arrange(totals, p->candidate[moment].idle, rows);
    ct_live_at_find_resumers(totals, p->resumers);
    return 1;
}

void ct_peak_totals_free(struct ct_peak_totals *p) {
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++) {
        free(p->kind[kind].list);
        free(p->resumed[kind].list);
    }
    for (unsigned i = 0; i < CT_TOTALS_MOMENTS; i++)
        free(p->candidate[i].pools);
    memset(p, 0, sizeof *p);
}
