// SPDX-License-Identifier: Apache-2.0
// What a memory snapshot of PyTorch's shows: which scenario the last request that failed is of, and
// who held the pool then. Memory outside of PyTorch's allocator is not in it, so nothing is said of
// other processes, graphs or libraries, and confidence is lower than from a trace.
#ifndef CT_SNAPSHOT_VERDICTS_H
#define CT_SNAPSHOT_VERDICTS_H

#include "base/human.h"
#include "diagnose/verdicts.h"
#include "sites/site_groups.h"
#include "snapshot/snapshot.h"
#include "symbols/phases.h"

struct ct_snapshot_case {
    struct ct_snapshot *snapshot;
    struct ct_call_sites *sites;
    struct ct_phases *phases;
    int device;                          // that is described; -1: the snapshot is empty
    const struct ct_snapshot_entry *oom; // NULL: no request failed
    size_t at; // the moment: before which entry of the device's history; its count: at the end
    uint64_t entries, ooms;   // in all histories
    struct ct_phase_at phase; // of the request
    enum ct_component component;
    struct ct_snapshot_pool pool; // just before that request, else at the peak
    struct ct_site_groups groups; // of the pool's blocks, the most bytes first; `more`: held open
};

// Describes a snapshot: the device of the last request that failed, else the one that held the
// most. To be freed.
void ct_snapshot_case_make(struct ct_snapshot_case *c, struct ct_snapshot *s,
                           struct ct_call_sites *sites, struct ct_phases *phases);
void ct_snapshot_case_free(struct ct_snapshot_case *c);
// When the pool is described: "just before the request".
struct ct_human_text ct_snapshot_case_name_moment(const struct ct_snapshot_case *c);
// Whether PyTorch's segments can grow, by its settings; -1: not known.
int ct_snapshot_case_is_expandable(const struct ct_snapshot_case *c);
// Adds the verdicts in the order of confidence; at least one.
void ct_snapshot_verdicts_find(const struct ct_snapshot_case *c, struct ct_verdicts *v);

#endif
