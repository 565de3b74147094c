// SPDX-License-Identifier: Apache-2.0
// Totals by stack that are put aside when they change first behind a mark.
#include "analyze/peak_totals.h"

static void more_stacks(struct ct_peak_totals *m, uint32_t stack) {
    const size_t before = m->stack_count;
    m->stack_count = before * 2 > stack + 1u ? before * 2 : stack + 64u;
    m->stacks = ct_heap_resize(m->stacks, m->stack_count, sizeof *m->stacks);
    memset(m->stacks + before, 0, (m->stack_count - before) * sizeof *m->stacks);
}

void ct_peak_totals_add(struct ct_peak_totals *m, uint32_t stack, uint64_t bytes, uint64_t count) {
    if (stack >= m->stack_count)
        more_stacks(m, stack);
    struct ct_stack_at_peak *s = &m->stacks[stack];
    for (unsigned i = 0; i < CT_TOTALS_KINDS; i++)
        if (s->at[i].set != m->mark[i].set) {
            s->at[i].set = m->mark[i].set;
            s->at[i].bytes = s->bytes;
            s->at[i].count = s->count;
        }
    s->bytes += bytes;
    s->count += count;
}

void ct_peak_totals_capture(struct ct_peak_totals *m, enum ct_totals_kind which, const struct ct_replay *r, int device,
                  uint64_t event) {
    m->mark[which].set++;
    m->mark[which].event = event;
    m->mark[which].split = ct_replay_split(r, device);
    m->mark[which].host_bytes = r->live.host_bytes;
    if (which == CT_TOTALS_AT_PEAK) // too often to look for pools
        return;
    free(m->mark[which].pools);
    m->mark[which].pools = ct_live_at_list_mempools(&r->live, device, &m->mark[which].pool_count);
}

int ct_peak_totals_get(const struct ct_peak_totals *m, enum ct_totals_kind which, uint64_t event,
                    struct ct_live_totals *moment) {
    size_t capacity = 0;
    if (!m->mark[which].set || m->mark[which].event != event)
        return 0;
    *moment = (struct ct_live_totals){.split = m->mark[which].split,
                                 .host_bytes = m->mark[which].host_bytes,
                                 .pool_count = m->mark[which].pool_count};
    if (moment->pool_count) {
        moment->pools = ct_heap_alloc_zeroed(moment->pool_count, sizeof *moment->pools);
        memcpy(moment->pools, m->mark[which].pools, moment->pool_count * sizeof *moment->pools);
    }
    for (size_t i = 0; i < m->stack_count; i++) {
        const struct ct_stack_at_peak *s = &m->stacks[i];
        const int aside = s->at[which].set == m->mark[which].set;
        const struct ct_holding h = {.stack = (uint32_t)i,
                                     .bytes = aside ? s->at[which].bytes : s->bytes,
                                     .count = aside ? s->at[which].count : s->count};
        if (!h.count)
            continue;
        CT_HEAP_GROW(moment->holdings, moment->holding_count, capacity);
        moment->holdings[moment->holding_count++] = h;
        moment->bytes += h.bytes;
        moment->count += h.count;
    }
    ct_live_at_sort(moment);
    return 1;
}

void ct_peak_totals_free(struct ct_peak_totals *m) {
    free(m->stacks);
    for (unsigned i = 0; i < CT_TOTALS_KINDS; i++)
        free(m->mark[i].pools);
    memset(m, 0, sizeof *m);
}
