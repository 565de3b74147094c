// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "diagnose/snapshot_verdicts.h"

static void count_entries(struct ct_snapshot_case *c) {
    for (int d = 0; d < CT_SNAPSHOT_DEVICES; d++) {
        c->entries += c->snapshot->history[d].count;
        c->ooms += c->snapshot->history[d].ooms;
    }
}

static int has_segments(const struct ct_snapshot *s, int device) {
    for (size_t i = 0; i < s->segment_count; i++)
        if (s->segments[i].device == device)
            return 1;
    return 0;
}

// The device whose blocks were the most, and when; -1: the snapshot is empty.
static int find_peak(const struct ct_snapshot *s, size_t *at) {
    uint64_t most = 0;
    int device = -1;
    for (int d = 0; d < CT_SNAPSHOT_DEVICES; d++) {
        uint64_t bytes;
        const size_t peak = ct_snapshot_find_peak(s, d, &bytes);
        if (bytes <= most && (device >= 0 || !has_segments(s, d)))
            continue;
        most = bytes;
        device = d;
        *at = peak;
    }
    return device;
}

static void group_holders(struct ct_snapshot_case *c) {
    const struct ct_snapshot_pool *p = &c->pool;
    struct ct_holding *list = ct_heap_alloc_zeroed(p->holder_count, sizeof *list);
    for (size_t i = 0; i < p->holder_count; i++)
        list[i] = (struct ct_holding){.kind = CT_HOLDING_BLOCK,
                                      .stack = p->holders[i].stack,
                                      .bytes = p->holders[i].bytes,
                                      .count = p->holders[i].count};
    ct_site_groups_refine(c->sites, list, p->holder_count);
    ct_site_groups_build(&c->groups, c->sites, list, p->holder_count);
    free(list);
}

void ct_snapshot_case_make(struct ct_snapshot_case *c, struct ct_snapshot *s,
                           struct ct_call_sites *sites, struct ct_phases *phases) {
    *c = (struct ct_snapshot_case){.snapshot = s, .sites = sites, .phases = phases};
    struct ct_snapshot_pool_key key = {0};
    count_entries(c);
    c->device = ct_snapshot_find_oom(s, &c->at);
    if (c->device >= 0) {
        c->oom = &s->history[c->device].list[c->at];
        c->phase = ct_phases_find(phases, c->oom->stack);
        c->component = ct_phases_find_component(phases, c->oom->stack);
        key = (struct ct_snapshot_pool_key){.stream = s->by_cutrace ? 0 : c->oom->stream,
                                            .pool = {c->oom->pool[0], c->oom->pool[1]},
                                            .is_small = c->oom->bytes <= UINT64_C(1) << 20};
    } else {
        c->device = find_peak(s, &c->at);
    }
    if (c->device < 0)
        return;
    ct_snapshot_pool_find(&c->pool, s, c->device, c->at, c->oom ? &key : NULL);
    group_holders(c);
}

void ct_snapshot_case_free(struct ct_snapshot_case *c) {
    ct_snapshot_pool_free(&c->pool);
    ct_site_groups_free(&c->groups);
}

struct ct_human_text ct_snapshot_case_name_moment(const struct ct_snapshot_case *c) {
    struct ct_human_text text = {"at the end"};
    if (c->oom)
        return (struct ct_human_text){"just before the request"};
    if (c->at < c->snapshot->history[c->device].count)
        (void)snprintf(text.text, sizeof text.text, "at the peak, entry %zu", c->at);
    return text;
}

int ct_snapshot_case_is_expandable(const struct ct_snapshot_case *c) {
    const struct ct_snapshot *s = c->snapshot;
    const struct ct_pickle_value *v =
        ct_pickle_find(&s->document, s->settings, "expandable_segments");
    return v && v->type == CT_PICKLE_IS_BOOL ? v->number != 0 : -1;
}
